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
from ....net._turns import LOOKS_OF_A_STEP
from ....sessions.state._hold import HOLD_MAX_S, Hold, Holds
from ....sessions.state._pull_filters import Wanted
from ....sessions.values._pull_request import PullRequest
from ....sessions.values._results import Pulled
from ...settings._config import BrokerConfig
from . import _reads

HELD_BYTES: Final = 2048
"""Bytes charged for a parked pull, beside the texts of its request."""
REFUSED_MAX: Final = 200
"""Most pulls that are refused in one turn, when the broker stops."""
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
    """Pulls that are no longer parked, for ``expire`` to answer."""
    _ended: deque[Session] = field(init=False, factory=deque)
    """Sessions that have ended and have pulls left, for ``expire`` to drop."""

    async def stop(self) -> None:
        """Refuse every parked pull, some in each turn, and from now on each that would be parked.

        A client that is refused asks again three seconds later. One whose connection only
        breaks may wait for its own time-out: thirty seconds in Java's of 4.9.
        """
        self._stopping = True
        self._late += self._holds.expire(math.inf, most=REFUSED_MAX)
        while self._late:
            for _ in range(min(REFUSED_MAX, len(self._late))):
                hold = self._late.popleft()
                hold.owner.account.add(-hold.size_bytes)
                hold.deliver(_stopping())
            await trio.lowlevel.checkpoint()
            self._late += self._holds.expire(math.inf, most=REFUSED_MAX)

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
        holds, config, host = self._holds, self._config, session.peer.host
        if self._stopping:
            raise _stopping()
        size_bytes = HELD_BYTES + kept_bytes + HASH_BYTES * len(asked.subscription or "")
        if not holds.has_place(session, host):
            held, whose = holds.held_by(session), "this connection"
            if not holds.has_place_at(host):
                held, whose = holds.held_at(host), f"the connections from {host}"
            remark = (
                f"[OVERLOAD]{held} pulls of {whose} are waiting, its share of the "
                f"{holds.held_max} that may wait, of which {len(holds)} do"
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
            host=host,
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
        """Drop the pulls of a session that has ended; of very many, some in this turn."""
        if self._drop_some(session):
            self._ended.append(session)
            self._wake.set()

    def _drop_some(self, session: Session) -> bool:
        """Drop as many pulls as one turn takes; returns whether there are more."""
        for hold in self._holds.drop(session, most=LOOKS_OF_A_STEP):
            session.account.add(-hold.size_bytes)
            hold.deliver = _forget  # what waits for the result knows the pull
        return self._holds.held_by(session) > 0

    def _answer_when_room(self, hold: Hold[Session]) -> None:
        if hold.owner.closed:  # and this one was woken before its turn to be dropped came
            hold.deliver = _forget
        else:
            hold.owner.when_room(partial(self._answer, hold))

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
        if self._holds.is_behind:
            self._wake.set()
        may_judge = _for_some_time()
        for hold in woken:
            if may_judge():
                self._answer_when_room(hold)
            else:
                self._late.append(hold)
                self._wake.set()

    async def expire(self) -> None:
        """Answer the pulls whose time is up, and those for which no turn had time, until cancelled.

        Others have their turn in between where that takes long.
        """
        while True:
            next_s = self._holds.next_expiry_s()
            self._sleeps_until_s = next_s if next_s is not None else math.inf
            with trio.move_on_at(self._sleeps_until_s):
                await self._wake.wait()
            self._wake = trio.Event()
            while self._find_late():
                await self._answer_late()
                await trio.lowlevel.checkpoint()

    def _find_late(self) -> bool:
        """Look for pulls to be answered or dropped, so many as one turn takes; returns whether to
        look again."""
        holds, now_s = self._holds, self._now_s()
        if holds.is_behind:
            holds.catch_up(now_s, _for_some_time())
            self._late += holds.take_woken()
        self._late += holds.expire(now_s, most=LOOKS_OF_A_STEP)
        if self._ended and not self._drop_some(self._ended[0]):
            self._ended.popleft()
        return bool(self._late or self._ended or holds.is_behind)

    async def _answer_late(self) -> None:
        may_judge = _for_some_time()
        while self._late:
            hold = self._late.popleft()
            self._answer_when_room(hold)
            if not may_judge():
                await trio.lowlevel.checkpoint()
                may_judge = _for_some_time()

    def _properties(self, topic: str, queue_id: int, queue_offset: int) -> bytes:
        """Read the property string of a stored message; an empty one where it is gone again."""
        units = self._store.units(topic, queue_id, queue_offset, 1)
        record = self._store.record_at(units[0].log_position) if units else None
        return b"" if record is None else record_properties(record)

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
