"""Answers that grow with what a server has: written in turns, charged to their peer, and refused
where no frame holds them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self, final

import trio

from lanemq.wire import Refused, RequestCode, ResponseCode, fastjson
from lanemq.wire.frame import MAX_FRAME_BYTES

from ._session import Session

HEADER_BYTES: Final = 64 << 10
"""Bytes that a frame leaves to the header of an answer."""
ANSWER_BYTES_MAX: Final = MAX_FRAME_BYTES - HEADER_BYTES
"""The longest body of an answer: no peer takes a longer frame."""
TURN_COST: Final = 64
"""Members that are written in one turn, at some 30 microseconds each."""
_MEMBER_BYTES: Final = 512
"""Bytes that take as long to write as a member takes to be found."""
JOINED_BYTES: Final = 64 << 10
"""Bytes that take as long to join; 4 MiB of them end a turn."""
LOOKED_AT: Final = 16
"""Entries of a table that take as long to look at."""
_ONE_AT_A_TIME: Final = "one long answer at a time"

_BY_TOPIC: Final = f"ask for a topic at a time, with request {RequestCode.GET_CONSUME_STATS:d}"
_WAYS_ON: Final[Mapping[int, str]] = {
    RequestCode.GET_CONSUME_STATS: "ask for one topic, or for a shorter list of topics",
    RequestCode.GET_BROKER_CONSUME_STATS: f"{_BY_TOPIC} and group",
    RequestCode.GET_ALL_CONSUMER_OFFSET: f"{_BY_TOPIC} and group",
    RequestCode.GET_ALL_TOPIC_CONFIG: (
        f"ask for one topic, with request {RequestCode.GET_TOPIC_CONFIG:d}"
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (
        f"ask for one group, with request {RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:d}"
    ),
}


def too_long(code: int, what: str) -> Refused:
    """Return the refusal (SYSTEM_ERROR) of an answer to request ``code`` that no frame holds."""
    way_on = _WAYS_ON.get(code, "ask for less at once")
    remark = (
        f"the answer to request {code} has {what} bytes, and a frame holds {ANSWER_BYTES_MAX}: "
        f"{way_on}"
    )
    return Refused(ResponseCode.SYSTEM_ERROR, remark)


def check_answer(code: int, size_bytes: int, *, at_least: bool = False) -> None:
    """Raise ``Refused`` for a body of so many bytes, or of at least so many, that is too long."""
    if size_bytes > ANSWER_BYTES_MAX:
        raise too_long(code, f"at least {size_bytes}" if at_least else f"{size_bytes}")


@final
class LongAnswer:
    """The body of one answer, of which each part has its turn of the loop."""

    def __init__(self, session: Session, code: int) -> None:
        self._session = session
        self._code = code
        self._kept_bytes = self._expected_bytes = self._cost = self._looks = 0

    @classmethod
    @asynccontextmanager
    async def begin(cls, session: Session, code: int) -> AsyncIterator[Self]:
        """Begin the answer to a request of ``code``; a connection has one of them at a time.

        Until the end its bytes are charged to the peer. The work ends with the connection, at the
        next turn.
        """
        lock = session.attributes.get(_ONE_AT_A_TIME)
        if lock is None:
            lock = session.attributes[_ONE_AT_A_TIME] = trio.Lock()
        async with lock:
            answer = cls(session, code)
            try:
                yield answer
            finally:
                session.account.add(-answer._kept_bytes)

    async def expect(self, size_bytes: int) -> None:
        """Count bytes that the body will have at least, before any of it is written.

        Raises ``Refused`` once they are too many.
        """
        self._expected_bytes += size_bytes
        check_answer(self._code, self._expected_bytes, at_least=True)
        await self._spend(1)

    async def members(self, members: Mapping[Any, object]) -> bytes:
        """Write members of an object, without its braces, and end the turn where it was long.

        Raises ``Refused`` once the body is too long.
        """
        text = fastjson.dumps(members)[1:-1]
        await self._keep(text, len(members))
        return text

    async def items(self, values: Sequence[object]) -> bytes:
        """Write items of an array, without its brackets; as ``members``."""
        text = fastjson.dumps(values)[1:-1]
        await self._keep(text, len(values))
        return text

    async def array(self, items: list[bytes]) -> fastjson.WrittenParts:
        """Make one array of written items; as ``object``."""
        await self.look(len(items))
        return fastjson.WrittenParts(b"[", items, b"]")

    async def body(self, members: Mapping[str, object]) -> bytes:
        """Write the body, whose long members are written already; a long one ends the turn."""
        body = fastjson.dumps(members)
        await self._spend(len(body) // JOINED_BYTES)
        return body

    async def look(self, count: int) -> None:
        """Count what was looked at, of which nothing is written: some hundred end a turn."""
        cost, self._looks = divmod(self._looks + count, LOOKED_AT)
        await self._spend(cost)

    async def object(self, members: list[bytes]) -> fastjson.WrittenParts:
        """Make one object of written members, of which some may be empty; ``body`` joins them."""
        await self.look(len(members))
        return fastjson.WrittenParts(b"{", members, b"}")

    def charge(self, size_bytes: int) -> None:
        """Charge bytes that are kept until the end to the peer."""
        self._kept_bytes += size_bytes
        self._session.account.add(size_bytes)

    async def _keep(self, text: bytes, members: int) -> None:
        self.charge(len(text))
        check_answer(self._code, self._kept_bytes, at_least=True)
        await self._spend(members + len(text) // _MEMBER_BYTES)

    async def _spend(self, cost: int) -> None:
        self._cost += cost
        if self._cost >= TURN_COST:
            self._cost = 0
            await trio.lowlevel.checkpoint()
