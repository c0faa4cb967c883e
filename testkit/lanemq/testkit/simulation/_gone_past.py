"""Going past a broker that is alive (``-fd``), and what becomes of what it takes all the same.

Its queue continues at a broker that cannot reach it, from the end that it had a moment ago. Clients
continue at either. Once the brokers reach each other, it has to stop, to count what has no place in
the logical queue, and to append that at the end when it is told to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, final

import trio

from lanemq.proxy.broker.logical.state._metrics import logical_info
from lanemq.proxy.logical.rules._superseded import (
    ORIGIN_PROPERTY,
    SUPERSEDED_FILE,
    Superseded,
    superseded_entries,
)
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import MigrationRefused
from lanemq.sdk.consumer.ordered._queue_locks import LOCK_LIFE_S
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, Segment, SegmentKey, SegmentState
from lanemq.wire.message import StoredMessage

from ._clients import ORDERLY, TOPIC
from ._ledger import Ledger, Violated
from ._network import Network
from ._operator import Operator
from ._processes import BrokerProcess

TAKING_MEAN_S: Final = 0.5
"""Mean time that the source goes on storing behind the offset that the operator read of it."""
APART_MEAN_S: Final = 3.0
AWAY_MEAN_S: Final = 1.0
FINDING_OUT_S: Final = 30.0
"""Seconds of being reachable in which a source has to hear that it was gone past."""
READERS_S: Final = 10.0
"""Readers that are past the cut have gone back to it by then."""
APPEND_STEP_S: Final = 0.05
PATIENCE_S: Final = 5.0
"""Seconds that an operator tries to have messages appended: their queue may be closed."""
APPENDING_S: Final = 300.0
"""Seconds for an append where all queues are open, and nothing else happens."""
SHARE: Final = 0.3
"""The share of other hosts that the source is cut off from, and of disturbances meanwhile."""
LATER_SHARE: Final = 0.3
"""The share of cuts whose messages the operator does not append at once."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A broker that a logical queue ends on, and its segment there."""

    broker: BrokerProcess
    segment: Segment

    @property
    def end(self) -> int:
        """The physical offset behind its last message."""
        store = self.broker.running.context.store
        return store.bounds(self.segment.topic, self.segment.queue_id)[1]

    @property
    def is_open(self) -> bool:
        mapping = self.broker.running.context.logical.get(self.segment.topic)
        now = mapping.find(self.segment.key) if mapping is not None else None
        return now is not None and now.is_writable


@final
class GoingPast:
    """An operator that goes past sources, and the check of what comes of it."""

    def __init__(
        self,
        operator: Operator,
        network: Network,
        brokers: list[BrokerProcess],
        others: list[str],
        ledger: Ledger,
        rng: Random,
    ) -> None:
        """``others`` are the hosts beside the brokers' that a source may be cut off from."""
        self._operator = operator
        self._network = network
        self._brokers = brokers
        self._others = others
        self._ledger = ledger
        self._rng = rng
        self.refused = 0
        """Number of times that a second word was asked for."""
        self.times = 0
        """Number of times that a queue went on past its source."""
        self.messages = 0
        """Number of messages that were appended after that."""

    async def go_past(self) -> None:
        """Go past a source once, unless the chosen queue is on its way elsewhere already."""
        index = self._rng.randrange(self._operator.queues)
        async with self._operator.left_alone(index):
            source = self._source(index)
            if source is None:
                return
            async with trio.open_nursery() as nursery:
                # Each of the two brokers that take themselves for the queue's end lends a lock.
                nursery.start_soon(self._share_locks, index)
                await self._go_past(source)
                nursery.cancel_scope.cancel()
        if self._rng.random() >= LATER_SHARE:
            await trio.sleep(READERS_S)
            await self._append_disturbed(source.broker)

    def _source(self, index: int) -> _Source | None:
        found, is_moving = [], False
        for broker in self._brokers:
            mapping = broker.running.context.logical.get(TOPIC) if broker.is_up else None
            if mapping is None:
                return None
            chain = mapping.chain(index)
            is_moving |= chain.write_only is not None
            found += [
                _Source(broker, segment)
                for segment in chain
                if segment.state is SegmentState.NORMAL and mapping.is_own(segment)
            ]
        return found[0] if len(found) == 1 and not is_moving else None

    async def _share_locks(self, index: int) -> None:
        try:
            while True:
                self._may_share_locks(index)
                await trio.sleep(1)
        finally:
            self._may_share_locks(index)

    def _may_share_locks(self, index: int) -> None:
        queue = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, index)
        for group in ORDERLY:
            self._ledger.may_share(group, queue, trio.current_time() + LOCK_LIFE_S + 1)

    async def _go_past(self, source: _Source) -> None:
        host = source.broker.host
        target = self._rng.choice([b for b in self._brokers if b is not source.broker])
        others = [b.host for b in self._brokers if b not in (source.broker, target)] + self._others
        unreached = [target.host, *(other for other in others if self._rng.random() < SHARE)]
        for other in unreached:
            self._network.part(host, other)
        try:
            end = source.end
            await trio.sleep(self._rng.expovariate(1 / TAKING_MEAN_S))
            is_past = await self._force(source, target, source.segment.to_logical(end))
            await trio.sleep(self._rng.expovariate(1 / APART_MEAN_S))
            if is_past and self._rng.random() < SHARE:
                await self._kill(target)
        finally:
            for other in unreached:
                self._network.join(host, other)
        if is_past:
            self.times += 1
            await self._found_out(source)

    async def _force(self, source: _Source, target: BrokerProcess, delta: int) -> bool:
        """Use ``-fd``, with a second word where it is asked for; return whether it came to pass."""
        name, index = source.broker.name, source.segment.logical_index
        async with self._operator.tools() as admin:
            try:
                is_listed = await admin.listed_at(name) is not None
                try:
                    await admin.migrate_logical_queue(TOPIC, index, target.name, force_delta=delta)
                except MigrationRefused as error:
                    if "--sourceIsGone" not in str(error):
                        raise
                    self.refused += 1
                else:
                    if is_listed:
                        raise Violated(f"{name} is listed, and was gone past without a second word")
                    return True
                await admin.migrate_logical_queue(
                    TOPIC, index, target.name, force_delta=delta, source_is_gone=True
                )
            except LanemqError:
                self._operator.interrupted += 1
                return False
        return True

    async def _kill(self, broker: BrokerProcess) -> None:
        await broker.kill()
        await trio.sleep(self._rng.expovariate(1 / AWAY_MEAN_S))
        await broker.restart(self._rng.choice(("kill", "power")))

    async def _found_out(self, source: _Source) -> None:
        """Check that the source stops, and counts what has no place."""
        with trio.move_on_after(FINDING_OUT_S):
            while source.is_open:  # noqa: ASYNC110 - nothing would say so
                await trio.sleep(0.1)
        if source.is_open:
            raise Violated(f"{source.segment} does not know that its queue went on elsewhere")
        context = source.broker.running.context
        waiting = sum(entry.count for entry in _entries(source.broker))
        said = logical_info(context.logical, context.now_ms())["logicalQueueSupersededMessages"]
        if said != str(waiting):
            raise Violated(f"{source.broker.name} counts {said} of {waiting} superseded messages")

    # Appending

    async def _append_disturbed(self, source: BrokerProcess) -> None:
        """Append while a broker dies, or while the source is cut off from another host."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._append, source)
            disturbance = self._rng.random()
            await trio.sleep(self._rng.expovariate(1 / APPEND_STEP_S))
            if disturbance < SHARE:
                await self._kill(self._rng.choice(self._brokers))
            elif disturbance < 2 * SHARE:
                hosts = [b.host for b in self._brokers if b is not source] + self._others
                await self._part(source.host, self._rng.choice(hosts))

    async def _part(self, one: str, other: str) -> None:
        self._network.part(one, other)
        await trio.sleep(self._rng.expovariate(1 / AWAY_MEAN_S))
        self._network.join(one, other)

    async def _append(self, source: BrokerProcess, patience_s: float = PATIENCE_S) -> object:
        """Call the command until it says that it is done; return None, or what stops it."""
        problem: object = "nothing is known"
        with trio.move_on_after(patience_s):
            while True:
                try:
                    async with self._operator.tools() as admin:
                        self.messages += await admin.append_superseded(source.address)
                        if not await admin.append_superseded(source.address):
                            return None
                except LanemqError as error:
                    problem = error
                await trio.sleep(1)
        return problem

    @property
    def cut_off(self) -> set[tuple[SegmentKey, int]]:
        """The segments that messages without a place lie behind, and where these end."""
        entries = (entry for broker in self._brokers for entry in _entries(broker))
        return {(entry.segment.key, entry.end) for entry in entries}

    async def all_appended(self) -> None:
        """Append the messages left behind, and check that each is there once, in its order.

        The ledger knows their new places afterwards.
        """
        for broker in self._brokers:
            if (problem := await self._append(broker, APPENDING_S)) is not None:
                raise Violated(f"{broker.name} cannot append what it took: {problem}")
        entries = [(broker, entry) for broker in self._brokers for entry in _entries(broker)]
        if not entries:
            return
        async with self._operator.tools() as admin:
            queues = await admin.routed_logical_queues(TOPIC)
        assert queues is not None, "the queues are whole"
        brokers = {broker.name: broker for broker in self._brokers}
        places: dict[tuple[int, str], list[int]] = {}
        for chain in queues.values():
            for segment in chain.readable:
                for message in _messages(brokers[segment.broker_name], segment):
                    origin = message.properties.get(ORIGIN_PROPERTY)
                    if origin is not None:
                        offset = segment.to_logical(message.queue_offset)
                        places.setdefault((chain.index, origin), []).append(offset)
        for broker, entry in entries:
            self._check(broker, entry, places)

    def _check(
        self, broker: BrokerProcess, entry: Superseded, places: dict[tuple[int, str], list[int]]
    ) -> None:
        segment, last = entry.segment, -1
        index = segment.logical_index
        queue = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, index)
        for message in _messages(broker, segment, segment.offset_max, entry.end):
            found = places.get((index, entry.origin(message.queue_offset)), [])
            if len(found) != 1 or found[0] <= last:
                text = message.body.decode()
                raise Violated(f"{text!r}, cut off behind {segment}, is at {found} after {last}")
            (last,) = found
            sender, number = message.body.decode().rsplit(" ", 1)
            before = segment.to_logical(message.queue_offset)
            self._ledger.moved(sender, int(number), queue, before, last)


def _entries(broker: BrokerProcess) -> list[Superseded]:
    """Return a broker's notes of messages without a place."""
    document = broker.running.context.store.document(SUPERSEDED_FILE)
    return list(superseded_entries(document.load(after_crash=False)).values())


def _messages(
    broker: BrokerProcess, segment: Segment, begin: int | None = None, end: int | None = None
) -> Iterator[StoredMessage]:
    """Iterate over the messages of a segment, or from ``begin`` to ``end`` of its message queue."""
    store, topic, queue_id = broker.running.context.store, segment.topic, segment.queue_id
    least, behind = store.bounds(topic, queue_id)
    begin = max(least, segment.offset_delta) if begin is None else begin
    end = segment.clamp_max(behind) if end is None else end
    for unit in store.units(topic, queue_id, begin, max(0, end - begin)):
        message = store.message_at(unit.log_position)
        if message is not None:
            yield message
