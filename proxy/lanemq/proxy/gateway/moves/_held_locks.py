"""Looks whether clients have locks at one broker alone, of those that are to be at two.

Brokers do not tell who has a lock. So it is asked for in a name that nobody has, and given back at
once where it is granted: then nobody had it. Who has one at the second broker has it at the first
one, too (``_locks``).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, final

import trio

from lanemq.sdk import LanemqError, RefusedByBroker
from lanemq.wire import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    RequestCode,
    ResponseCode,
    is_system_topic,
    queue_ids,
)
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import request

from ._context import MoveContext
from ._moved_topics import all_orders

Code = RequestCode
ASK_S: Final = 3.0
LENT_S: Final = 60.0
"""Seconds for which brokers lend a lock. Source: 4.9.8, RebalanceLockManager."""
NOBODY: Final = "lanemq-proxy@locks"
"""The name that nobody has. All proxies use it: what one of them has not given back yet is no
client's lock to another."""
QUEUES_MAX: Final = 1000
"""Most queues of one request."""


@final
class HeldLocks:
    """The locks of the queues of one broker. Methods raise ``LanemqError``,
    ``RemoteProtocolError``."""

    def __init__(self, context: MoveContext, broker: str) -> None:
        self._orders = context.moving.orders
        self._client = context.client
        self._admin = context.admin
        self._address = context.address
        self._broker = broker

    async def held_alone(
        self, first: str, second: str, asked: Mapping[str, Sequence[MessageQueue]]
    ) -> bool:
        """Return whether anybody has a lock of the queues ``asked``, by their groups, at the first
        of two addresses, and not at the second."""
        for group, queues in asked.items():
            for at in range(0, len(queues), QUEUES_MAX):
                some = queues[at : at + QUEUES_MAX]
                held = await self._held(first, group, some)
                if held and held - await self._held(second, group, held):
                    return True
        return False

    async def queues(self, address: str) -> dict[str, list[MessageQueue]]:
        """Return the queues that each group reads: by what the broker at an address tells, and by
        the orders of topics, since who stands in need not have the topics itself."""
        found: dict[str, set[MessageQueue]] = {}
        for topic, config in (await self._admin.topic_configs(address)).topic_config_table.items():
            if topic.startswith(RETRY_PREFIX):
                groups = [topic.removeprefix(RETRY_PREFIX)]
            elif is_system_topic(topic) or topic.startswith(DLQ_PREFIX):
                continue
            else:
                groups = await self._admin.groups_of_topic(address, topic)
            for group in groups:
                found.setdefault(group, set()).update(
                    MessageQueue(topic, self._broker, number)
                    for number in queue_ids(config.queue_count)
                )
        for topic, order in await all_orders(self._orders):
            queues = [MessageQueue(topic, self._broker, at) for at in order.first_at(self._broker)]
            for place in {*order.ends()} if queues else ():
                for group in await self._groups_at(place, topic):
                    found.setdefault(group, set()).update(queues)
        return {group: sorted(queues) for group, queues in found.items()}

    async def _groups_at(self, broker: str, topic: str) -> Iterable[str]:
        """Return the groups of a topic that a broker knows; none if it has not the topic."""
        address = self._address(broker)
        if address is None:
            return ()
        try:
            return await self._admin.groups_of_topic(address, topic)
        except RefusedByBroker as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        return ()

    async def _held(
        self, address: str, group: str, queues: Iterable[MessageQueue]
    ) -> set[MessageQueue]:
        """Return the queues that somebody has locked at a broker."""
        wanted = set(queues)
        body = LockBatch(group, NOBODY, tuple(sorted(wanted))).encode()
        try:
            answer = await self._client.call(address, request(Code.LOCK_BATCH_MQ, {}, body), ASK_S)
            granted = set(LockBatchResult.decode(answer.body).lock_ok_mq_set)
        except BaseException:  # it may have been granted
            with suppress(LanemqError):
                await self._give_back(address, group, wanted)
            raise
        if granted:
            await self._give_back(address, group, granted)
        return wanted - granted

    async def _give_back(self, address: str, group: str, queues: set[MessageQueue]) -> None:
        """Give locks back, even where nobody waits for it any more: clients would lack them."""
        body = LockBatch(group, NOBODY, tuple(sorted(queues))).encode()
        with trio.CancelScope(shield=True):
            await self._client.call(address, request(Code.UNLOCK_BATCH_MQ, {}, body), ASK_S)
