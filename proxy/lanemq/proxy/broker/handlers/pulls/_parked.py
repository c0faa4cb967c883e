"""Long polling: pulls that are parked at the end of their queue until a message comes.

A parked pull is run a second time, which then answers for certain: because a message woke it, or
because its time is up.

Source: RocketMQ 4.9.8, PullRequestHoldService.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final, final

import trio
from attrs import define, field

from lanemq.storage import Store
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.message import record_properties

from ....net._answers import Result
from ....net._loop_watch import loop_watch
from ....net._session import Session
from ....sessions.state._hold import HOLD_MAX_S, Hold, Holds
from ....sessions.state._pull_filters import Wanted
from ....sessions.values._pull_request import PullRequest
from ....sessions.values._results import Pulled
from ...settings._config import BrokerConfig
from . import _reads

HELD_BYTES: Final = 2048
"""Bytes charged for a parked pull, beside the texts of its request."""
HASH_BYTES: Final = 32
"""Bytes that each character may cost: of tags when they are hashed, of SQL when it is compiled."""


@final
class Parked(Result, frozen=True, gc=False):
    """The result of a pull that finds nothing yet, and is to wait for the end of a queue to move.

    The queue may be one that stands for something else: a mapping, or a group's commits.
    """

    topic: str
    queue_id: int
    offset: int
    wanted: Wanted


Deliver = Callable[[Pulled | Exception], None]
"""Takes the late result of a parked pull, or the error in place of one."""


@final
@define(eq=False, kw_only=True, repr=False)
class ParkedPulls:
    """The parked pulls of one broker."""

    _config: BrokerConfig
    _holds: Holds[Session]
    _now_s: Callable[[], float]
    _store: Store
    _wake: trio.Event = field(init=False, factory=trio.Event)
    _sleeps_until_s: float = field(init=False, default=math.inf)
    _stopping: bool = field(init=False, default=False)
    _late: deque[Hold[Session]] = field(init=False, factory=deque)
    """Pulls that are not parked any more, for ``expire`` to answer."""

    def stop(self) -> None:
        """Refuse every parked pull, and from now on each that would be parked.

        A client that is refused asks again three seconds later. One whose connection only
        breaks may wait for its own time-out: thirty seconds in Java's of 4.9.
        """
        self._stopping = True
        late, self._late = self._late, deque()
        for hold in (*late, *self._holds.expire(math.inf)):
            hold.owner.account.add(-hold.size_bytes)
            hold.deliver(_stopping())

    def park(
        self,
        parked: Parked,
        asked: PullRequest,
        session: Session,
        again: Callable[[], Pulled | Parked],
        deliver: Deliver,
        *,
        kept_bytes: int = 0,
    ) -> Hold[Session]:
        """Keep a pull until it is run ``again`` and answered by ``deliver``, or its session ends.

        ``kept_bytes`` are charged to the session, beside what every pull costs. Raises
        ``Refused`` where too many wait already.
        """
        holds, config = self._holds, self._config
        if self._stopping:
            raise _stopping()
        size_bytes = HELD_BYTES + kept_bytes + HASH_BYTES * len(asked.subscription or "")
        if not holds.has_place(session):
            remark = (
                f"[OVERLOAD]{holds.held_by(session)} pulls of this connection are waiting, its "
                f"share of the {holds.held_max} that may wait, of which {len(holds)} do"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        if not session.account.admits(size_bytes):
            remark = "[OVERLOAD]what waits for this connection is as much as the broker can keep"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        if config.long_polling_enable:
            timeout_ms = asked.suspend_ms
        else:
            timeout_ms = config.short_polling_time_mills
        hold = Hold(
            owner=session,
            again=again,
            deliver=deliver,
            queue=(parked.topic, parked.queue_id),
            queue_offset=parked.offset,
            tag_codes=parked.wanted.tag_codes,
            matches=parked.wanted.matches,
            timeout_s=min(max(0.0, timeout_ms / 1000), HOLD_MAX_S),
            size_bytes=size_bytes,
        )
        if holds.park(hold, self._now_s()):
            session.on_close.append(self._drop)
        session.account.add(size_bytes)
        self._rearm()
        return hold

    def forget(self, hold: Hold[Session]) -> None:
        """Give up a parked pull whose answer is not wanted; do nothing where it has one."""
        if self._holds.forget(hold):
            hold.owner.account.add(-hold.size_bytes)

    def _drop(self, session: Session) -> None:
        for hold in self._holds.drop(session):
            session.account.add(-hold.size_bytes)
            hold.deliver = _forget  # what waits for the result knows the pull

    def _answer(self, hold: Hold[Session]) -> None:
        """Run a parked pull again, without parking and without its commit.

        It never raises: this runs while somebody else's messages are committed.
        """
        hold.owner.account.add(-hold.size_bytes)
        try:
            result = hold.again()
        except Exception as error:  # such as a group or topic that was taken away meanwhile
            hold.deliver(error)
        else:
            assert not isinstance(result, Parked)
            hold.deliver(result)

    def arrived(self, topic: str, queue_id: int, end: int, tags_codes: Sequence[int]) -> None:
        """Wake pulls for messages that came into a queue; the store calls this while it
        commits.

        The time grows with messages times pulls. Once this turn has none left, all pulls of the
        queue are woken, and find out for themselves.
        """
        if not self._holds.waits_on(topic, queue_id):
            return
        now_s, hurried, may_judge = self._now_s(), False, _for_some_time()
        for max_offset, tags_code in enumerate(tags_codes, end - len(tags_codes) + 1):
            if not may_judge():
                self._holds.wake(topic, queue_id)
                break
            hurried |= self._holds.arrived(
                topic,
                queue_id,
                max_offset=max_offset,
                tags_code=tags_code,
                now_s=now_s,
                properties=partial(self._properties, topic, queue_id, max_offset - 1),
                may_judge=may_judge,
            )
        if hurried:
            self._rearm()

    def answer_woken(self, woken: list[Hold[Session]]) -> None:
        """Answer pulls that were woken; beyond the time of a turn they are left to ``expire``."""
        may_judge = _for_some_time()
        for hold in woken:
            if may_judge():
                hold.owner.when_room(partial(self._answer, hold))
            else:
                self._late.append(hold)
                self._wake.set()

    async def expire(self) -> None:
        """Answer the pulls whose time is up, until cancelled.

        Others have their turn in between where that takes long.
        """
        while True:
            next_s = self._holds.next_expiry_s()
            self._sleeps_until_s = next_s if next_s is not None else math.inf
            with trio.move_on_at(self._sleeps_until_s):
                await self._wake.wait()
            self._wake = trio.Event()
            self._late += self._holds.expire(self._now_s())
            may_judge = _for_some_time()
            while self._late:
                hold = self._late.popleft()
                hold.owner.when_room(partial(self._answer, hold))
                if not may_judge():
                    await trio.lowlevel.checkpoint()
                    may_judge = _for_some_time()

    def _properties(self, topic: str, queue_id: int, queue_offset: int) -> bytes:
        """Read the property string of a stored message."""
        store = self._store
        (unit,) = store.units(topic, queue_id, queue_offset, 1)
        record = store.record_at(unit.log_position)
        assert record is not None
        return record_properties(record)

    def _rearm(self) -> None:
        """Wake ``expire`` if it would sleep too long."""
        next_s = self._holds.next_expiry_s()
        if next_s is not None and next_s < self._sleeps_until_s:
            self._wake.set()


def _for_some_time() -> Callable[[], bool]:
    """Make a check that is true as long as this turn of the loop may go on judging messages."""
    until_s = loop_watch().until_s(_reads.JUDGING_S)
    return lambda: perf_counter() < until_s


def _forget(result: object) -> None:
    """Drop the result of a pull whose connection has ended."""


def _stopping() -> Refused:
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping")
