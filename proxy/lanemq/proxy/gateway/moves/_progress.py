"""The progress of groups, as brokers keep it: tables of it, and the begin of a part."""

from collections.abc import Collection, Mapping
from typing import Final

import trio

from lanemq.sdk import RemotingClient
from lanemq.wire import RequestCode
from lanemq.wire.frame import request
from lanemq.wire.headers import UpdateConsumerOffset

ASK_S: Final = 3.0
TURN: Final = 1000
"""Entries of tables that are looked at in one turn of the loop."""
Offsets = Mapping[tuple[str, int], Mapping[str, int]]
"""Topic and queue id -> group -> offset."""


async def note_begin(
    client: RemotingClient, address: str, topic: str, queue_id: int, group: str
) -> None:
    """Give a group progress at the begin of a queue: 0, which brokers tell from none at all. A
    group without any begins where it chooses, at the end maybe. Raises ``LanemqError``."""
    header = UpdateConsumerOffset(group, topic, queue_id, 0).to_fields()
    await client.call(address, request(RequestCode.UPDATE_CONSUMER_OFFSET, header), ASK_S)


async def indexed(table: Mapping[str, Mapping[int, int]], topics: Collection[str]) -> Offsets:
    """Turn a broker's table of ``topic@group`` into one of the queues of some topics.

    In one turn of the loop it looks at ``TURN`` entries, so that leases are renewed meanwhile.
    """
    found: dict[tuple[str, int], dict[str, int]] = {}
    seen = 0
    for key, queues in table.items():
        topic, _, group = key.partition("@")
        seen += 1
        if topic in topics:
            seen += len(queues)
            for queue_id, offset in queues.items():
                found.setdefault((topic, queue_id), {})[group] = offset
        if seen >= TURN:
            seen = 0
            await trio.lowlevel.checkpoint()
    return found
