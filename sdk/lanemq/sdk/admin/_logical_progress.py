"""Groups' progress in logical queues, taken along to the brokers that the queues end at.

Migrations between brokers of lanemq carry it by themselves. What was left behind by earlier
versions, by other brokers or by an interruption is found in the brokers' tables of offsets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Chain, progress_places, progress_topic

from .logical._spread import Topics

if TYPE_CHECKING:
    from ._client import AdminClient

OffsetTable = Mapping[str, Mapping[int, int]]
"""``topic@group`` -> queue id -> offset, of one broker."""
SEPARATOR = "@"


@final
@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The progress of a group that is kept elsewhere than where its logical queue ends."""

    group: str
    keeper: str
    """The broker of ``queue``."""
    queue: MessageQueue
    """The name and id under which the offset has to be kept."""
    offset: int


def left_behind(topic: str, chain: Chain, tables: Mapping[str, OffsetTable]) -> list[LeftBehind]:
    """Find progress to be put at the open end of a logical queue, as nothing else keeps it. Pure.

    ``tables`` are those of the brokers that answer, by name. As consumers do, it looks from the
    last segment back, and last at the physical queue that the logical one began as. Nothing
    where the queue has no open end, or its broker does not answer.
    """
    end = chain.normal
    if end is None or end.broker_name not in tables:
        return []
    kept: dict[str, int] = {}
    for place in reversed([*progress_places(chain)]):  # the later one counts
        key = place.queue
        table = tables.get(key.broker_name, {})
        for group, offset in _offsets(table, key.topic, key.queue_id):
            kept[group] = place.worth(group, offset)
    name = progress_topic(topic, end.delta)
    queue = MessageQueue(name, end.broker_name, chain.index)
    there = {group for group, _ in _offsets(tables[end.broker_name], name, chain.index)}
    return [
        LeftBehind(group, end.broker_name, queue, offset)
        for group, offset in kept.items()
        if group not in there
    ]


def _offsets(table: OffsetTable, name: str, queue_id: int) -> Iterable[tuple[str, int]]:
    for key, queues in table.items():
        topic, _, group = key.partition(SEPARATOR)
        if topic == name and queue_id in queues:
            yield group, queues[queue_id]


@final
@dataclass(frozen=True, slots=True)
class Carried:
    """The result of taking progress along."""

    offsets: int
    """The number put at the ends of their queues."""
    missing: tuple[LeftBehind, ...]
    """Offsets that are not at the ends all the same."""


async def carry_progress(
    admin: "AdminClient", topics: Topics, broker: str, addresses: Mapping[str, str]
) -> Carried:
    """Make sure that no group's progress in a logical queue is at ``broker`` alone.

    ``addresses`` are those of the masters that answer, by name. The offsets put are read again.
    Raises whatever one of them raises.
    """
    chosen = [
        (topic, chain)
        for topic, chains in topics.items()
        for chain in chains.values()
        if any(segment.broker_name == broker for segment in chain)
    ]
    wanted = await _left(admin, chosen, addresses)
    for one in wanted:
        await admin.put_offset(addresses[one.keeper], one.group, one.queue, one.offset)
    missing = await _left(admin, chosen, addresses) if wanted else []
    return Carried(len(wanted) - len(missing), tuple(missing))


async def _left(
    admin: "AdminClient", chosen: list[tuple[str, Chain]], addresses: Mapping[str, str]
) -> list[LeftBehind]:
    if not chosen:
        return []
    tables = {name: await admin.offset_table(address) for name, address in addresses.items()}
    return [one for topic, chain in chosen for one in left_behind(topic, chain, tables)]
