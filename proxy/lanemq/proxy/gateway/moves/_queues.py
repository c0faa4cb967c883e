"""The queues that move, as one process serves them: what waits, what is under way, what is done.

A change of a queue's stage is carried out once nothing is under way that does not know it. The
lease says so to the others (``_lease``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire.frame import Frame

from ..order import MovedQueue, Part, QueueOrders, may_have_order, unreadable
from ._lease import CarriedOut, Key, ProxyLease
from ._moved_topics import MovedTopics, give_back, say_moved
from ._numbers import Note
from ._remembered import RememberedMoves
from ._serving import (
    Held,
    Links,
    Serving,
    answer_late,
    answer_some,
    carried_out,
    moving,
    release_some,
)
from ._stands import Stands
from ._ways import Link

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

HELD_S: Final = 3.0
"""Seconds for which requests wait while a queue's end is read; clients give a send as long."""
RELEASED_MAX: Final = 100
"""Most requests that are taken once more in one turn of the loop."""
UNDER_WAY_S: Final = 3.0
"""Seconds for which a stage waits for answers to sends."""
SEALING_S: Final = 20.0
"""Seconds after which a queue whose end could not be read is given back."""
TICK_S: Final = 0.05


@final
class MovingQueues:
    """All queues that move, of one process; ``run`` is its task."""

    def __init__(
        self,
        orders: QueueOrders,
        name: str,
        *,
        nursery: trio.Nursery,
        links_to: Callable[[str], Iterable[Link]],
        now_s: Callable[[], float] = trio.current_time,
    ) -> None:
        """``links_to`` gives all links over which requests to a broker go unchanged."""
        self.orders = orders
        told, is_urgent = self._carried_out, self._is_sealing
        self.lease = ProxyLease(orders, name, told=told, is_urgent=is_urgent, now_s=now_s)
        self._nursery = nursery
        self._links_to = links_to
        self._now_s = now_s
        self._topics = MovedTopics(orders.keys)
        self.stands = Stands(orders.keys)
        self._remembered = RememberedMoves(orders, self._topics, self.stands, self.lease)
        self._clean = -1
        self._serving: dict[Key, Serving] = {}
        self._failed: set[Key] = set()
        self.called_off: set[Key] = set()
        """Queues that no longer move, for which requests wait yet."""
        self._active = trio.Event()
        self.moves = 0
        """Number of times that a queue was seen to continue at another broker."""
        for log in orders.keys.logs:
            log.follower.on_news.append(self.refresh)

    # What is known

    def of_topic(self, topic: str) -> Mapping[tuple[str, int], MovedQueue]:
        """Return the moved queues of a topic by their first parts."""
        self.refresh()
        return self._topics.queues.get(topic, {})

    @property
    def has_any(self) -> bool:
        """True if any queue has moved, or is to."""
        self.refresh()
        return bool(self._topics.queues)

    def all(self) -> Iterator[tuple[str, MovedQueue]]:
        """Iterate over all moved queues, each with its topic."""
        self.refresh()
        for topic, queues in sorted(self._topics.queues.items()):
            for _, moved in sorted(queues.items()):
                yield topic, moved

    def now(self, topic: str, place: tuple[str, int]) -> MovedQueue:
        """Return a queue as it is now; one that does not move after all has one part."""
        moved = self.of_topic(topic).get(place)
        return MovedQueue((Part(*place),)) if moved is None else moved

    def check_lease(self, topic: str) -> None:
        """Raise ``Refused`` for a queue that may have moved, while this proxy cannot know."""
        if self.lease.is_sure or may_have_order(topic):
            self.check_sure()
            if topic in self._topics.unreadable:
                raise unreadable(topic)

    def check_sure(self) -> None:
        """Raise ``Refused`` while this proxy has no lease; else take note of the log's news."""
        if not self.lease.is_sure:
            raise self.lease.refused()
        self.refresh()
        if not self.lease.is_sure:  # the log is another one than it was
            raise self.lease.refused()

    # What the log says

    def refresh(self) -> None:
        """Take note of what the log has said since the last time."""
        if self._remembered.is_broken():
            self._clean = -1
            for serving in self._serving.values():
                serving.floor = None if serving.floor is None else -1
            self._nursery.start_soon(self._remembered.run, self.refresh)
        position = self.orders.position
        if position == self._clean or self._remembered.is_writing:
            return
        floor, self._clean = self._clean, position
        for key, now in self._topics.changes():
            self._changed(key, now, floor)
        if self.stands.refresh() | self.lease.is_asked():
            self.lease.renew_for(position)

    def _changed(self, key: Key, now: MovedQueue | None, floor: int) -> None:
        serving = self._serving.setdefault(key, Serving())
        before, serving.moved = serving.moved, now
        serving.since_s = self._now_s()
        if now is None and serving.held:
            self.called_off.add(key)
        else:
            self.called_off.discard(key)
        if serving.floor is None:
            serving.floor = floor
        if before is None and now is not None:
            serving.begin(self._links_to(now.place[0]))
        ended = before is not None and now is not None and len(now.parts) > len(before.parts)
        if ended:
            self.moves += 1
            assert now is not None
            say_moved(key, now)
        changed, serving.changed = serving.changed, trio.Event()
        changed.set()
        self._active.set()
        self._nursery.start_soon(self._settle, key)

    async def _settle(self, key: Key) -> None:
        """Go on with what has waited, out of the turn in which the log was read."""
        await trio.lowlevel.checkpoint()
        serving = self._serving.get(key)
        if serving is not None:
            self._try_look(key, serving)

    # What is under way

    def _carried_out(self) -> CarriedOut:
        self.refresh()
        return carried_out(self._serving, self._clean)

    def is_waiting(self, topic: str, place: tuple[str, int], *, sends: bool) -> bool:
        """Return whether a request for the last part of a queue has to wait."""
        serving = self._serving.get((topic, place))
        if serving is None:
            return False
        raw_sends = serving.raw_sends if serving.moved is not None else 0
        return serving.is_sealing or bool(
            sends and not serving.is_releasing and (serving.held or raw_sends)
        )

    def hold(self, topic: str, place: tuple[str, int], held: Held) -> None:
        """Let a request wait. Raises ``Refused``."""
        self._serving[topic, place].hold(held)
        self._active.set()

    def sent(self, links: Links, opaque: int, note: Note) -> None:
        """Note a request that went to a part."""
        serving = self._serving.setdefault((note.topic, note.place), Serving())
        if note.offset < 0:
            serving.sends.add((links, opaque))
        else:
            serving.pulls[links, opaque] = note

    def answered(self, links: Links, opaque: int, note: Note) -> None:
        """Forget a request, which has its answer or gets none."""
        serving = self._serving.get((note.topic, note.place))
        if serving is not None:
            serving.sends.discard((links, opaque))
            serving.pulls.pop((links, opaque), None)

    def keep_answer(self, links: Links, note: Note, era: int, answer: Frame) -> None:
        """Keep the answer to a send until the end of its part is known."""
        serving = self._serving.setdefault((note.topic, note.place), Serving())
        serving.answers.append((links, note, era, answer))
        self._active.set()

    async def opened(self, topic: str, place: tuple[str, int]) -> MovedQueue:
        """Return a queue once its end is not being read. Raises ``Refused`` after ``HELD_S``."""
        with trio.move_on_after(HELD_S):
            while (moved := self.now(topic, place)).is_sealing:
                await self._serving[topic, place].changed.wait()
            return moved
        raise moving()

    async def run(self) -> None:
        """Look after what waits, until cancelled."""
        while True:
            self.refresh()
            is_active = False
            for key, serving in list(self._serving.items()):
                self._try_look(key, serving)
                if serving.moved is None and not serving.has_requests:
                    if serving.floor is None:
                        del self._serving[key]
                    continue
                is_active |= serving.is_waiting
            if is_active:
                await trio.sleep(TICK_S)
            else:
                await self._active.wait()
                self._active = trio.Event()
                await trio.lowlevel.checkpoint()

    def _is_sealing(self) -> bool:
        return any(serving.is_sealing for serving in self._serving.values())

    def _try_look(self, key: Key, serving: Serving) -> None:
        """Look after one queue, whose failure holds up neither others nor the proxy."""
        try:
            self._look(key, serving)
        except Exception:  # a bug of ours
            self._say_failed(key)

    def _say_failed(self, key: Key) -> None:
        """Log the exception that is being handled, once for each queue."""
        if key not in self._failed:
            self._failed.add(key)
            LOGGER.exception("topic %s: what waits for queue %s is not looked after", *key)

    def _look(self, key: Key, serving: Serving) -> None:
        now_s = self._now_s()
        for link in serving.forget_settled(now_s):
            reason = "a queue moves, and a request for it is not answered"
            self._nursery.start_soon(link.end_in_turn, reason)
        is_sealing = serving.is_sealing
        if serving.floor is not None:
            is_late = now_s - serving.since_s > UNDER_WAY_S
            waits = bool(serving.sends) and is_sealing and not is_late
            if not serving.raw and not waits:
                serving.floor = None
                self.lease.renew_for(self.orders.position)
        if is_sealing:
            while serving.held and serving.held[0].until_s <= now_s:
                answer_late(serving.take_held())
            if now_s - serving.since_s > SEALING_S:
                serving.since_s = now_s
                self._nursery.start_soon(self._give_back, key)
            return
        self._open(key, serving, now_s)

    def _open(self, key: Key, serving: Serving, now_s: float) -> None:
        """Go on with what waits for a queue whose end stands, or is open."""
        if self._release_some(key, serving, now_s) and not serving.has_releaser:
            serving.has_releaser = True
            self._nursery.start_soon(self._release, key, serving)

    def _release_some(self, key: Key, serving: Serving, now_s: float) -> bool:
        """Take some of what has waited once more, in its order; returns whether there is more."""
        answer_some(serving, self.now(*key), RELEASED_MAX)
        may_send = not serving.raw_sends or now_s - serving.since_s >= HELD_S
        if may_send:
            release_some(serving, RELEASED_MAX)
        if not serving.held:
            self.called_off.discard(key)
        return bool(serving.answers or serving.unlooked or (may_send and serving.held))

    async def _release(self, key: Key, serving: Serving) -> None:
        """Take all that has waited once more, some in each turn of the loop."""
        try:
            is_more = True
            while is_more:
                await trio.lowlevel.checkpoint()
                self.refresh()
                is_more = not serving.is_sealing
                is_more = is_more and self._release_some(key, serving, self._now_s())
        except Exception:  # a bug of ours
            self._say_failed(key)
        finally:
            serving.has_releaser = False

    async def _give_back(self, key: Key) -> None:
        """Let a queue go on where it was: its end could not be read in time."""
        try:
            await give_back(self.orders, key)
        except Exception:  # a bug of ours
            self._say_failed(key)
