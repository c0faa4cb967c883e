"""Moves, and brokers that stand in, that the log of orders has lost: who knows writes them back.

The broker of the log may lose its last records: a power cut before they are on disk, a slave that
lacks them and becomes the master. A move that was among them has been carried out: messages are at
the next part, and nobody would read them there. Locks are at the broker that stands in for another,
and the other one would lend them again. So a proxy that knows of it writes it back, before it
serves any queue again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

import msgspec
import trio
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError

from ..kv import KeysUnavailable, TooLong
from ..order import TOPICS, MovedQueue, Part, QueueOrder, QueueOrders, change_order
from ._lease import ProxyLease
from ._moved_topics import MovedTopics
from ._stands import Stand, Stands, decode_stand, stand_key

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

AGAIN_S: Final = 1.0
Waiting = Mapping[str, Callable[[], Awaitable[None]]]
"""The topics and brokers that are to be written back, each with what does it."""
WHY: Final = "the log of orders has lost records, and what this proxy knows of them is written back"


def written_back(known: QueueOrder, log: QueueOrder | None) -> tuple[QueueOrder, list[MovedQueue]]:
    """Return an order of the log with the parts that its queues are known to have besides, and the
    queues of which this cannot be, since they have gone on elsewhere in the log. Pure.

    ``log`` is None where it has none of the topic.
    """
    if log is None:
        return known, []
    found, contradicted = log, list[MovedQueue]()
    if _is_begin_of(log, known):
        if {*log.moved} <= {*known.moved} and {*log.kept} <= {*known.kept}:
            return known, []  # it is what the topic had before
        # Others may have moved queues since the log was broken.
        kept = tuple(one for one in known.kept if one not in log.kept)
        found = replace(log, first=known.first, runs=known.runs, kept=(*log.kept, *kept))
    for queue in known.moved:
        there = log.moved_at(*queue.place)
        parts = (Part(*queue.place),) if there is None else there.parts
        shorter, longer = sorted((queue.parts, parts), key=len)
        if not _begins_with(longer, shorter):
            contradicted.append(queue)
            continue
        if len(queue.parts) <= len(parts):
            continue
        found = found.with_moved(there, MovedQueue(queue.parts))
        for part in queue.parts[1:]:
            found = found if part.place in found.kept else found.with_kept(part.place)
    return found, contradicted


def _is_begin_of(log: QueueOrder, known: QueueOrder) -> bool:
    """Return whether the queues of the log are the first ones of those that are known, and the
    others have not been made for moves since."""
    seen = known.queues()
    return (
        log.count < len(seen)
        and log.queues() == seen[: log.count]
        and all(known.place_of(*one) is None for one in log.kept)
    )


def _begins_with(longer: Sequence[Part], parts: Sequence[Part]) -> bool:
    """Return whether a queue may have had some parts, the last of them open, before it had more."""
    *ended, last = parts
    return last.place == longer[len(ended)].place and all(
        (one.place, one.end) == (other.place, other.end)
        for one, other in zip(ended, longer, strict=False)
    )


@final
class RememberedMoves:
    """Notices that the log was broken, and writes back what it has lost of moves."""

    def __init__(
        self, orders: QueueOrders, topics: MovedTopics, stands: Stands, lease: ProxyLease
    ) -> None:
        self._orders = orders
        self._topics = topics
        self._stands = stands
        self._lease = lease
        self._kept: object = None
        """The state of the log of which ``topics`` has its queues."""
        self.is_writing = False
        """True until all is written back: what the log says is not to be taken note of yet."""

    def is_broken(self) -> bool:
        """Return whether the log, which is known, was broken since the last time: ``run`` has to
        be called then."""
        kept = self._orders.keys.logs[0].follower.kept
        if self.is_writing or kept is self._kept or self._orders.position < 0:
            return False
        is_first, self._kept = self._kept is None, kept
        if is_first:
            return False
        self.is_writing = True
        self._lease.hold_back(WHY)  # nor is it known whether the log has this lease yet
        return True

    async def run(self, then: Callable[[], None]) -> None:
        """Write all back, again where the log is broken meanwhile; ``then`` is called at the end,
        in the same turn."""
        follower = self._orders.keys.logs[0].follower
        waiting = self._all()
        while True:
            await self._orders.opened()
            if follower.kept is not self._kept:
                self._kept = follower.kept
                waiting = self._all()
            waiting = await self._write_round(waiting)
            if waiting:
                await trio.sleep(AGAIN_S)
            elif follower.kept is self._kept and self._orders.position >= 0:
                break
        self.is_writing = False
        self._lease.hold_back("")
        then()

    def _all(self) -> Waiting:
        topics, stands = self._topics.orders.items(), self._stands.all().items()
        return {f"topic {one}": partial(self._write_back, one, known) for one, known in topics} | {
            f"broker {one}": partial(self._write_stand, one, known) for one, known in stands
        }

    async def _write_round(self, waiting: Waiting) -> Waiting:
        """Write all back, each at most once; returns those that are to be tried again. One that
        cannot be written yet holds up no other one."""
        again, why = dict[str, Callable[[], Awaitable[None]]](), WHY
        for what, write in waiting.items():
            try:
                await write()
            except KeysUnavailable as error:
                again[what] = write
                why = f"{WHY}; {what} is not yet: {error}"
                LOGGER.warning("%s: what the log has lost is not back yet: %s", what, error)
            except Exception:  # a bug of ours
                LOGGER.exception("%s: what the log has lost is not written back", what)
        if again:
            self._lease.hold_back(why)
        return again

    async def _write_back(self, topic: str, known: QueueOrder) -> None:
        """Write back what one topic lacks; others may do the same at once. Raises
        ``KeysUnavailable``."""
        while True:
            log = self._orders.of(topic)
            if log is None and self._orders.keys.get(TOPICS + topic.encode()) is not None:
                return  # nobody can read it, and its queues are not served
            back, contradicted = written_back(known, log)
            if back == log:
                break
            brokers = dict.fromkeys(run.broker for run in known.runs)
            brokers |= dict.fromkeys(part.broker for one in known.moved for part in one.parts)
            try:
                if await change_order(self._orders, topic, log, back, behind=brokers):
                    LOGGER.critical(
                        "topic %s: the log of orders had lost moves of its queues, and has them "
                        "again now: let its broker lose nothing (SYNC_FLUSH, SYNC_MASTER)",
                        topic,
                    )
                    break
            except (TooLong, RemoteProtocolError) as error:
                LOGGER.critical("topic %s: lost moves cannot be written back: %s", topic, error)
                return
        for queue in contradicted:
            LOGGER.critical(
                "topic %s: the log of orders has lost that queue %d of broker %s had gone on at "
                "%s, and it has gone on elsewhere since: messages there are read by nobody",
                topic,
                queue.place[1],
                queue.place[0],
                ", ".join(f"queue {part.queue_id} of {part.broker}" for part in queue.parts[1:]),
            )

    async def _write_stand(self, broker: str, known: Stand) -> None:
        """Write back who stands in for a broker; others may do the same at once. Raises
        ``KeysUnavailable``."""
        keys, name = self._orders.keys, stand_key(broker)
        while True:
            entry = keys.get(name)
            try:
                if entry is not None and decode_stand(entry.value).number >= known.number:
                    return  # it is what it was, or what it has become since
                version = 0 if entry is None else entry.version
                if await keys.put(name, msgspec.json.encode(known), expected=version) is not None:
                    break
            except (TooLong, RemoteProtocolError) as error:
                LOGGER.critical("broker %s: who stands in for it is lost: %s", broker, error)
                return
        LOGGER.critical(
            "broker %s: the log of orders had lost that %s stands in for it, and has it again now: "
            "let its broker lose nothing (SYNC_FLUSH, SYNC_MASTER)",
            broker,
            " and ".join(known.places),
        )
