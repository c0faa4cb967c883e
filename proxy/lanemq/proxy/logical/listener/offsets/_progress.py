"""ListenerProgress of groups in logical queues, kept by the broker of a queue's last segment.

No listener keeps any of it, so any of them can take another's place. Offsets are logical and
stay valid wherever the queue moves (see ``lanemq.wire.logical.progress_topic`` for the key).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, final

import trio
from attrs import define, field

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.headers import QueryConsumerOffset, UpdateConsumerOffset
from lanemq.wire.logical import (
    Chain,
    CommitTo,
    NotKept,
    NotReached,
    ProgressPlace,
    ProgressSearch,
    Segment,
    Taken,
    progress_keepers,
    progress_topic,
)

from ....net._loop_watch import asking_host
from ....net.limits._names import is_name_too_long
from ....net.limits._owned_entries import OwnedEntries
from ....sessions.values._framed import GroupOffset
from ..brokers._broker import Unreachable
from ..brokers._brokers import Brokers
from ..brokers._questions import COMMIT, GROUP_OFFSET
from ..brokers._views import TopicView
from ..port._queues import SeenQueues

QUEUED_MAX: Final = 10_000
"""Most commits that wait for their turn, of which an address has a share; beyond it its oldest
without an answer are dropped."""
AT_ONCE: Final = 64
"""Most commits without an answer that are under way at once; others wait for one of these."""

Reader = tuple[str, str, int]
"""Group, topic, index."""


@final
@define(eq=False, kw_only=True, repr=False)
class ListenerProgress:
    """Reads and writes of progress. Methods that wait may raise ``Refused``."""

    _brokers: Brokers
    _queues: SeenQueues
    _soon: OwnedEntries[Reader, CommitTo] = field(
        factory=lambda: OwnedEntries(QUEUED_MAX, asking_host), init=False
    )
    _turns: dict[Reader, trio.Lock] = field(factory=dict, init=False)
    """The commits under way: those of a group in a queue are written in the order in which they
    came, for a broker keeps the last one, however old it is."""
    _wake: trio.Event = field(factory=trio.Event, init=False)
    _writing: int = field(default=0, init=False)

    # Writing

    async def commit(self, group: str, topic: str, index: int, commit: CommitTo) -> None:
        """Keep a logical offset as given, backwards too, as far as it counts."""
        key = group, topic, index
        offset, end = self._judged(key, commit)
        if offset is None:
            return
        if end is not None:  # it has the offset before anybody waits, so no turn is needed
            self._soon.pop(key)
            asked = UpdateConsumerOffset(group, progress_topic(topic, end.delta), index, offset)
            await self._brokers.call(end.broker_name, None, COMMIT, asked)
            return
        # Who asks may be gone before it has its turn.
        self._soon.put(key, commit, spares=self._turns.__contains__)
        await self._write_pending(key)

    def _judged(self, key: Reader, commit: CommitTo) -> tuple[int | None, Segment | None]:
        """Return the offset to keep of a commit, as far as is known now, and the end of the queue
        if that is where it can be kept at once."""
        _, topic, index = key
        chain = self._queues.routes.chain(topic, index)
        if chain is None:
            return commit.offset, None
        return commit.in_chain(chain), self._own_end(key, chain)

    def _own_end(self, key: Reader, chain: Chain) -> Segment | None:
        """Return the end of a queue if the broker of this process keeps progress there, and no
        earlier commit is under way. Not by an old view: the queue may have been elsewhere since.
        """
        topic, routes = key[1], self._queues.routes
        # Not Chain.last: ``commit`` and ``find`` begin with the last segment that has a place,
        # expired or not, and while a destination behind it has none, ``commit`` asks its broker.
        last = chain[-1] if chain else None
        if last is None or last.delta < 0 or self._brokers.quick(last.broker_name) is None:
            return None
        if key in self._turns or not routes.is_fresh(topic, now_s=trio.current_time()):
            return None
        return last

    async def _write_pending(self, key: Reader) -> None:
        """Write the last commit of a group in a queue in its turn, if it is not written by then."""
        async with self._turn(key) as turn:
            commit = self._soon.pop(key)
            if commit is None:
                return
            try:
                await self._write(*key, commit)
            except BaseException as error:
                # Another one waits to hear how it ends; of one that is cancelled nobody has.
                is_unheard = isinstance(error, trio.Cancelled) or turn.statistics().tasks_waiting
                if is_unheard and key not in self._soon:
                    self._soon.put(key, commit, spares=self._turns.__contains__)
                raise

    @asynccontextmanager
    async def _turn(self, key: Reader) -> AsyncIterator[trio.Lock]:
        """Hold the turn to write a group's progress in a queue, once those before are done."""
        turn = self._turns.setdefault(key, trio.Lock())
        try:
            async with turn:
                yield turn
        finally:
            if not turn.locked() and self._turns.get(key) is turn:
                del self._turns[key]
            if key in self._soon:
                self._look_again()

    def _look_again(self) -> None:
        wake, self._wake = self._wake, trio.Event()
        wake.set()

    async def _write(self, group: str, topic: str, index: int, commit: CommitTo) -> None:
        view, chain = await self._queues.chain(topic, index)
        refusal: Refused | None = None
        conversation = commit.steps(chain)
        try:
            step = next(conversation)
            while True:
                reply: Taken | NotReached = Taken()
                try:
                    await self._put(view, step.place, group, step.offset)
                except Unreachable as error:
                    refusal, reply = error, NotReached(is_down=True)
                step = conversation.send(reply)
        except StopIteration as end:
            if end.value is NotKept.NO_KEEPER:
                remark = f"{topic}/{index} is on no broker"
                raise (refusal or Refused(ResponseCode.SYSTEM_ERROR, remark)) from None

    async def put_everywhere(self, group: str, topic: str, index: int, offset: int) -> None:
        """Keep an offset with the broker of every segment that answers."""
        view, chain = await self._queues.chain(topic, index)
        for place in reversed([*progress_keepers(chain)]):
            with suppress(Refused):
                await self._put(view, place, group, offset)

    async def _put(self, view: TopicView, place: ProgressPlace, group: str, offset: int) -> None:
        """Keep a logical offset with the broker of one segment."""
        key, broker = place.queue, place.queue.broker_name
        asked = UpdateConsumerOffset(group, key.topic, key.queue_id, offset)
        await self._brokers.call(broker, view.address(broker), COMMIT, asked)

    def commit_soon(self, group: str, topic: str, index: int, commit: CommitTo) -> None:
        """Schedule a ``commit`` without waiting; a later one for the same queue takes its place.

        If the broker of this process keeps the offset, that happens at once, unless an earlier
        commit is under way.
        """
        key = group, topic, index
        offset, end = self._judged(key, commit)
        if offset is None:
            return
        own = self._brokers.quick(end.broker_name) if end is not None else None
        if end is not None and own is not None:
            self._soon.pop(key)
            own.commit_offset(group, progress_topic(topic, end.delta), index, offset)
            return
        if not is_name_too_long(group):  # no broker keeps it
            self._soon.put(key, commit, spares=self._turns.__contains__)
            self._look_again()

    async def run(self) -> None:
        """Write the commits of ``commit_soon``, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                key = next((key for key in self._soon if key not in self._turns), None)
                if key is None or self._writing >= AT_ONCE:
                    await self._wake.wait()
                    continue
                self._turns[key] = trio.Lock()  # so that it is not begun twice
                self._writing += 1
                nursery.start_soon(self._write_soon, key)

    async def _write_soon(self, key: Reader) -> None:
        try:
            with suppress(Refused):  # as an Apache broker does: the next commit has it again
                await self._write_pending(key)
        finally:
            self._writing -= 1
            self._look_again()

    # Reading

    async def find(
        self, group: str, topic: str, index: int, *, zero_if_young: bool = False
    ) -> int | None:
        """Find the offset at which a group goes on; None if it never committed.

        A group that has read the physical queue before it became this logical one goes on where
        it was: at that moment the offsets are the same. With ``zero_if_young`` the rule of that
        queue's broker for a group without an offset counts as well: 0 in a young queue.
        """
        key = group, topic, index
        if key in self._soon or key in self._turns:  # a consumer that leaves waits for no answer
            with suppress(Refused):
                await self._write_pending(key)
        view, chain = await self._queues.chain(topic, index)
        search = ProgressSearch(group, chain)
        for place in search:
            may_be_zero = zero_if_young and place.is_origin
            try:
                told = await self._ask(view, place, group, zero_if_young=may_be_zero)
            except Unreachable:
                if place.is_needed:
                    raise
                continue
            offset = told.offset if told is not None and told.offset >= 0 else None
            search.told(place, offset, is_certain=told is not None and told.is_kept)
        return search.offset

    async def _ask(
        self, view: TopicView, place: ProgressPlace, group: str, *, zero_if_young: bool
    ) -> GroupOffset | None:
        """Ask a broker for an offset; None where it has none."""
        key, broker = place.queue, place.queue.broker_name
        asked = QueryConsumerOffset(
            group,
            key.topic,
            key.queue_id,
            set_zero_if_not_found=None if zero_if_young else False,
        )
        question = GROUP_OFFSET
        try:
            return await self._brokers.call(broker, view.address(broker), question, asked)
        except Refused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
