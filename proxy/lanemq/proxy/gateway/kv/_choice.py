"""The choice of the broker that a new log is at, which several proxies may make at the same time.

Each may have heard of other brokers, so each may begin the log at another one. All of them have to
come to the same choice before anything is written there that counts, and no broker helps with it.
So a log begins with marks. *Begun* says that somebody would have it here. The first record that is
none of these decides, for good, since a queue has one order: *ended* says that the log is at
another broker, and anything else that it is here. Who has seen where the log was begun looks at
all brokers once more. Where it was begun at one alone, that is kept; where at several, it is ended
at all but the first by name. Two that are both kept cannot be: each would have been begun after
the other was looked for there.
"""

import random
from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

import trio

from lanemq.storage.kv import operation_properties
from lanemq.wire.kv import Beginning, OpType, encode_beginning
from lanemq.wire.message import decode_properties, encode_properties

from ._queue import LogQueue, NoSuchTopic, NotYet

MARK_PROPERTY: Final = "kv_log"
BEGUN: Final = "begun"
KEPT: Final = "kept"
ENDED: Final = "ended"
PAUSE_S: Final = 0.1
"""Seconds until what was written is looked for."""


class LogSplit(Exception):  # noqa: N818 - says what happened
    """A log has records at several brokers: nobody knows which are meant."""


class LogState(Enum):
    """The state of a log at one broker."""

    NONE = "none"
    """Nobody has begun it there."""
    BEGUN = BEGUN
    KEPT = KEPT
    ENDED = ENDED


class Candidates(Protocol):
    """The brokers of a cluster. Every method raises ``NotYet``."""

    async def queues(self) -> Mapping[str, LogQueue]:
        """Return the first queue of the log's topic at each broker that anybody may know."""

    async def create(self, broker: str) -> None:
        """Create the topic at a broker, where it may be."""

    async def is_writable(self, broker: str) -> bool:
        """Return whether a broker is open for new topics, as a drained one is not."""


def marked(mark: str, *, identity: str = "") -> bytes:
    """Return the properties of a mark; one that begins a log has the identity of its namespace."""
    op_type = OpType.BEGIN if mark == BEGUN else OpType.TICK
    return encode_properties({MARK_PROPERTY: mark}) + operation_properties(
        op_type, identity=identity
    )


async def state_of(queue: LogQueue) -> LogState:
    """Return the state of a log by its first queue at a broker. Raises ``NotYet``."""
    offset = 0
    while True:
        try:
            pulled = await queue.pull(offset, wait_s=0.0)
        except NoSuchTopic:
            return LogState.NONE
        if pulled.begin:
            return LogState.KEPT  # its beginning is gone, so much was written
        for stored in pulled.records:
            mark = decode_properties(stored.properties).get(MARK_PROPERTY)
            if mark != BEGUN:
                return LogState.ENDED if mark == ENDED else LogState.KEPT
            offset = stored.offset + 1
        if offset >= pulled.end:
            return LogState.BEGUN if offset else LogState.NONE
        if not pulled.records:
            raise NotYet(f"the log ends at {pulled.end}, and its broker gives no record {offset}")


async def chosen(
    candidates: Candidates, topic: str, *, partitions: int, named: str | None, rng: random.Random
) -> str:
    """Return the broker of a log, chosen by all proxies that ask at once and later.

    ``named`` is where to begin it if nobody has, by default at the first broker by name. Raises
    ``NotYet``, after which it is to be called again, and ``LogSplit``.
    """
    known = ""  # where it was begun before the look that follows
    while True:
        queues = await candidates.queues()
        states = {name: await state_of(queue) for name, queue in sorted(queues.items())}
        kept = [name for name, state in states.items() if state is LogState.KEPT]
        if kept:
            return only(kept, topic)
        begun = [name for name, state in states.items() if state is LogState.BEGUN]
        if not begun:
            known = ""
            broker = await _fresh(candidates, states, topic, named)
            await _begin(candidates, queues, broker, partitions, rng)
        elif begun[0] != known:
            known = begun[0]
            continue
        elif len(begun) == 1:
            await queues[known].append(b"", marked(KEPT))
        else:
            for name in begun[1:]:
                await queues[name].append(b"", marked(ENDED))
        await trio.sleep(PAUSE_S * rng.uniform(0.5, 1.0))


async def _begin(
    candidates: Candidates,
    queues: Mapping[str, LogQueue],
    broker: str,
    partitions: int,
    rng: random.Random,
) -> None:
    await candidates.create(broker)
    body = encode_beginning(Beginning(0, partitions, position=0))
    await queues[broker].append(body, marked(BEGUN, identity=f"{rng.getrandbits(64):016x}"))


def only(kept: list[str], topic: str) -> str:
    """Return the broker at which a log is kept. Raises ``LogSplit`` for several."""
    if len(kept) > 1:
        raise LogSplit(
            f"topic {topic}, the log of keys, has records at brokers {' and '.join(kept)}: delete "
            "it at those whose records are not meant"
        )
    return kept[0]


async def _fresh(
    candidates: Candidates, states: Mapping[str, LogState], topic: str, named: str | None
) -> str:
    """Return the broker at which to begin a log. Raises ``NotYet``."""
    if not states:
        raise NotYet("no master of any broker is registered now")
    if named is not None and named not in states:
        raise NotYet(f"no master of broker {named} is registered now")
    fresh = [name for name, state in states.items() if state is LogState.NONE]
    if not fresh:
        raise NotYet(
            f"topic {topic}, a log of keys, has ended at all brokers that are registered now. If "
            "those are all, delete it there"
        )
    for name in [named] if named in fresh else fresh:
        if await candidates.is_writable(name):
            return name
    raise NotYet(
        f"topic {topic}, a log of keys, can begin at no broker: {name} is drained, or its "
        "brokerPermission is without writing"
    )
