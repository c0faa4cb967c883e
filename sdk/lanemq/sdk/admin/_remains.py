"""Things on a broker beside the ends of logical queues that are lost when it is switched off.

Messages that wait for their time or for another try, dead letters, what groups have not read yet,
and their progress; keys that no other broker has yet. Counted from the broker's own tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, SystemGroup, SystemTopic
from lanemq.wire.bodies import MessageQueue, TopicOffset
from lanemq.wire.logical import PROGRESS_PREFIX, Chain, progress_topic
from lanemq.wire.message import is_stage_group

from .._errors import RefusedByBroker
from ._logical_progress import SEPARATOR, OffsetTable
from .logical._spread import Topics

if TYPE_CHECKING:
    from ._client import AdminClient

_WAITING = {
    SystemTopic.SCHEDULE,
    SystemTopic.TRANSACTION_HALF,
    SystemTopic.UNDELIVERED,
    SystemTopic.TIMER,
}

UNREAD: Final = "messages that a group has not read"


@final
@dataclass(frozen=True, slots=True)
class Remainder:
    """A kind of things that is still on a broker."""

    what: str
    """Their kind, such as ``delayed messages``."""
    count: int
    last_time_ms: int = 0
    """Store time of the last of them; 0 if that is not known."""
    example: str = ""
    """The topic or group with most of them."""


async def remainders(
    admin: "AdminClient", topics: Topics, broker: str, addresses: Mapping[str, str]
) -> list[Remainder]:
    """Find the kinds of things that are still on the broker named ``broker``.

    ``addresses`` are those of the masters that answer. Raises whatever one of them raises.
    """
    address = addresses[broker]
    table = await admin.offset_table(address)
    names = (await admin.topic_configs(address)).topic_config_table
    found = await waiting_messages(admin, address, names, table)
    unread = await _unread(admin, topics, broker, addresses)
    if unread is not None:
        found.append(unread)
    progress = [
        key
        for key in table
        if _is_physical(key)
        and names.get(key.partition(SEPARATOR)[0]) is not None
        and key.partition(SEPARATOR)[0] not in topics
        and not key.startswith((RETRY_PREFIX, DLQ_PREFIX))
    ]
    keys = [one for one in await admin.kv_status(address) if one.entries]
    if keys:
        most = max(keys, key=lambda one: one.entries)
        example = f"partition {most.partition} of {most.namespace}"
        count = sum(one.entries for one in keys)
        found.append(Remainder("keys that no other broker has", count, example=example))
    if progress:
        what = "offsets of groups in topics without logical queues"
        found.append(Remainder(what, len(progress), example=progress[0]))
    return found


async def waiting_messages(
    admin: "AdminClient", address: str, names: Iterable[str], table: OffsetTable
) -> list[Remainder]:
    """Find the messages that wait at a broker for their time, for another try or for somebody to
    look at them; ``names`` are its topics, ``table`` its offsets."""
    found: list[Remainder] = []
    kinds: dict[str, list[tuple[int, int, str]]] = {}
    waits = {name for name in names if name.startswith((RETRY_PREFIX, DLQ_PREFIX))}
    for name in sorted(waits | _WAITING):
        try:
            queues = (await admin.topic_offsets(address, name)).offset_table
        except RefusedByBroker:
            continue  # it is not there
        waiting = await _waiting(admin, address, name, queues.items(), table)
        if waiting is not None:
            kind, count, last_ms = waiting
            kinds.setdefault(kind, []).append((count, last_ms, name))
    for kind, entries in kinds.items():
        total = sum(count for count, _, _ in entries)
        if total:
            last_ms = max(last for count, last, _ in entries if count)
            found.append(Remainder(kind, total, last_ms, max(entries)[2]))
    return found


def _is_physical(key: str) -> bool:
    topic, _, group = key.partition(SEPARATOR)
    return not topic.startswith(PROGRESS_PREFIX) and not is_stage_group(group)


async def _waiting(
    admin: "AdminClient",
    address: str,
    name: str,
    queues: Iterable[tuple[MessageQueue, TopicOffset]],
    table: OffsetTable,
) -> tuple[str, int, int] | None:
    """Return kind, number and last store time of the messages that wait in a topic; None for a
    topic that nobody needs."""
    entries = [(queue.queue_id, one) for queue, one in queues]
    last_ms = max((one.last_update_timestamp for _, one in entries), default=0)
    if name == SystemTopic.SCHEDULE:
        levels = await admin.delay_offsets(address)
        done = {level - 1: offset for level, offset in levels.items()}
        return "delayed messages", _behind(entries, done), last_ms
    if name == SystemTopic.TRANSACTION_HALF:
        done = dict(table.get(f"{name}{SEPARATOR}{SystemGroup.TRANSACTION}", {}))
        return "half messages of transactions", _behind(entries, done), last_ms
    if name == SystemTopic.TIMER:
        known = await admin.runtime(address)
        # Those of the index, and those that are on their way into it.
        counts = [known.get("timerCongestNum", "0"), known.get("timerOffsetBehind", "0")]
        count = sum(int(text) for text in counts if text.isdecimal())
        return "messages with a timer", count, last_ms
    if name == SystemTopic.UNDELIVERED:
        return "delayed messages that could not be delivered", _behind(entries, {}), last_ms
    if name.startswith(RETRY_PREFIX):
        group = name.removeprefix(RETRY_PREFIX)
        done = dict(table.get(f"{name}{SEPARATOR}{group}", {}))
        return "messages that wait for another try", _behind(entries, done), last_ms
    if name.startswith(DLQ_PREFIX):
        return "dead letters", _behind(entries, {}), last_ms
    return None


def _behind(entries: Iterable[tuple[int, TopicOffset]], done: Mapping[int, int]) -> int:
    return sum(
        max(0, one.max_offset - max(one.min_offset, done.get(queue_id, 0)))
        for queue_id, one in entries
    )


async def _unread(
    admin: "AdminClient", topics: Topics, broker: str, addresses: Mapping[str, str]
) -> Remainder | None:
    """Find the messages that are only there and that some group has not read yet."""
    chosen = [
        (topic, chain)
        for topic, chains in topics.items()
        for chain in chains.values()
        if any(s.broker_name == broker and s.is_readable and s.count for s in chain)
    ]
    if not chosen:
        return None
    tables = {name: await admin.offset_table(address) for name, address in addresses.items()}
    total, most = 0, (0, "")
    for topic, chain in chosen:
        for group, count in unread_at(topic, chain, broker, tables).items():
            total += count
            most = max(most, (count, f"{group} of {topic}"))
    return Remainder(UNREAD, total, example=most[1]) if total else None


def unread_at(
    topic: str, chain: Chain, broker: str, tables: Mapping[str, OffsetTable]
) -> dict[str, int]:
    """Count by group the messages of the sealed segments at ``broker`` not yet read. Pure."""
    end = chain.normal
    if end is None:
        return {}
    name = progress_topic(topic, end.delta)
    found: dict[str, int] = {}
    for key, queues in tables.get(end.broker_name, {}).items():
        kept, _, group = key.partition(SEPARATOR)
        if kept != name or chain.index not in queues or group.startswith("%"):
            continue
        offset = queues[chain.index]
        count = sum(
            max(0, s.next_delta - max(offset, s.delta))
            for s in chain
            if s.broker_name == broker and s.is_readable and s.is_sealed
        )
        if count:
            found[group] = count
    return found
