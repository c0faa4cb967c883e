"""Calls to the brokers that hold segments: to this process's directly, to others over a link."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, cast, final

import trio
from attrs import define

from lanemq.sdk import BrokerUnreachable, LanemqError, RemotingClient
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ....broker.cluster._peers import ANY_CODE
from ....broker.handlers.pulls._parked import Parked
from ....broker.handlers.pulls._pull import Pulls
from ....broker.state._hold import Hold
from ....broker.values._pull_request import PullRequest, read_pull_request
from ....broker.values._results import Pulled
from ....net._answers import Answer, Later, answer_after
from ....net._dispatch import Handlers, unsupported
from ....net._session import Session
from ._questions import AskedT, Question, ToldT

CALL_S: Final = 5.0
"""Seconds that another broker may take for an answer that it does not have to wait for."""


class Unreachable(Refused):
    """The broker cannot be asked; the client may try again."""

    def __init__(self, broker_name: str, why: object) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, f"{broker_name}: {why}")
        self.broker_name = broker_name


class RefusedThere(Refused):
    """The refusal that another broker answered with."""


@final
@define(eq=False, kw_only=True, repr=False)
class Brokers:
    """Calls to brokers by name, on behalf of clients of the listener."""

    _client: RemotingClient
    _own_name: str
    _own_handlers: Handlers
    _own_pulls: Pulls
    _commit_own: Callable[[], None]

    def is_own(self, broker_name: str) -> bool:
        """Return whether it is the broker of this process, which answers without a link."""
        return broker_name == self._own_name

    def ask_own(self, frame: Frame, session: Session) -> Answer | Awaitable[Answer]:
        """Forward a request to this process's broker; its answer is there at once, unless it has to
        wait.

        A parked pull ends with the client's session. A stored message is committed with the read
        that it is called in, as always. Raises what a handler raises.
        """
        if frame.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            return self.pull_own(read_pull_request(frame), session)
        handler = self._own_handlers.table.get(frame.code)
        if handler is None:
            return unsupported(frame)
        answer = handler(frame, session)
        assert answer is not None, "only pulls have no answer yet"
        return cast("Answer | Awaitable[Answer]", answer)

    def pull_own(self, asked: PullRequest, session: Session) -> Pulled | Awaitable[Pulled]:
        """Pull from this process's broker as ``ask_own``."""
        result = self._own_pulls.read(asked, session)
        if isinstance(result, Awaitable):
            return Later(result, self._pull_later(result, asked, session))
        if isinstance(result, Parked):
            return _ParkedHere(self._own_pulls, result, asked, session)
        return result

    async def _pull_later(
        self, under_way: Awaitable[Pulled | Parked], asked: PullRequest, session: Session
    ) -> Pulled:
        result = await under_way
        if isinstance(result, Parked):
            return await _ParkedHere(self._own_pulls, result, asked, session)
        return result

    async def call(
        self,
        broker_name: str,
        address: str | None,
        question: Question[AskedT, ToldT],
        asked: AskedT,
        timeout_s: float = CALL_S,
    ) -> ToldT:
        """Ask a broker a question; this process's own gets no frame, and makes none.

        Raises ``Refused`` as the handler here does, ``RefusedThere`` as another broker answers,
        and what ``ask`` raises.
        """
        if self.is_own(broker_name):
            # There is no read of a connection that would commit.
            return await answer_after(self._commit_own, question.own(asked))
        answer = await self._ask_other(broker_name, address, question.encode(asked), timeout_s)
        if answer.code not in question.codes:
            raise RefusedThere(answer.code, answer.remark or "")
        return question.decode(answer)

    async def ask(
        self,
        broker_name: str,
        address: str | None,
        frame: Frame,
        session: Session,
        timeout_s: float = CALL_S,
    ) -> Answer:
        """Forward a client's own request to a broker; return its answer, whatever its code.

        Sends, pulls and messages that are sent back keep their fields on the way, known or not,
        so they go as frames; this process's broker answers with its result all the same, another
        one with a frame. Raises ``Refused`` (SYSTEM_ERROR) where it does not answer, and as
        ``Unreachable`` where it cannot be asked at all: then nothing of the request was done.
        """
        if self.is_own(broker_name):
            return await answer_after(self._commit_own, self.ask_own(frame, session))
        return await self._ask_other(broker_name, address, frame, timeout_s)

    async def _ask_other(
        self, broker_name: str, address: str | None, frame: Frame, timeout_s: float
    ) -> Frame:
        if address is None:
            raise Unreachable(broker_name, "no name server knows its address")
        try:
            if frame.flag & FLAG_ONEWAY:
                await self._client.oneway(address, frame)
                return frame.reply()
            return await self._client.call(address, frame, timeout_s, accept=ANY_CODE)
        except BrokerUnreachable as error:
            raise Unreachable(broker_name, error) from error
        except LanemqError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{broker_name}: {error}") from error


@final
class _ParkedHere:
    """A pull that is parked from now on, for the one task that waits for its result."""

    def __init__(self, pulls: Pulls, parked: Parked, asked: PullRequest, session: Session) -> None:
        self._result: Pulled | Exception | None = None
        self._is_there = trio.Event()
        self._parked_pulls = pulls.parked
        self._hold: Hold[Session] | None = pulls.park(parked, asked, session, self._deliver)

    def _deliver(self, result: Pulled | Exception) -> None:
        self._hold = None  # it refers to this: no circle is left for the collector
        self._result = result
        self._is_there.set()

    def __await__(self) -> Generator[Any, Any, Pulled]:
        return self._wait().__await__()

    def close(self) -> None:
        """Give the pull up."""
        if self._hold is not None:
            self._parked_pulls.forget(self._hold)
            self._hold = None

    async def _wait(self) -> Pulled:
        """Wait for the result. Raises ``Refused``."""
        await self._is_there.wait()
        assert self._result is not None
        if isinstance(self._result, Exception):
            raise self._result
        return self._result
