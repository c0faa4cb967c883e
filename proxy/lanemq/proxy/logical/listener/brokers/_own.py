"""The broker of this process, as its listener sees it: what it is asked without a link.

A listener knows no broker. The process that has both puts this together; a listener without one
reaches all brokers as ``RemoteBroker`` does, or by a way of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, cast, final

from attrs import frozen

from lanemq.storage import Got, Store
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import Segment

from ....net._answers import Answer, answer_after
from ....net._dispatch import Handlers, unsupported
from ....net._session import Session
from ....sessions.values._pull_request import PullRequest, read_pull_request
from ....sessions.values._results import Pulled, Stored
from ....sessions.values._shared import CommitOffset
from ...rules._mapping import TopicMapping
from ._accounts import OwnAccount
from ._own_answers import OwnAnswers
from ._questions import AskedT, Question, ToldT


class QuickSend(Protocol):
    """Stores an ordinary message at once; None for any other. Raises ``Refused``."""

    def __call__(
        self, frame: Frame, session: Session, queue_id: int | None = None
    ) -> Stored | None: ...


class OwnReads(Protocol):
    """The reads of the broker's message queues."""

    def of_open_segment(
        self, asked: PullRequest, session: Session, segment: Segment, queue_offset: int
    ) -> Got | None:
        """Read from the segment that a logical queue ends with here; None if there is more to
        look at, or nothing."""


class OwnPulls(Protocol):
    """The pulls from the broker's message queues."""

    @property
    def reads(self) -> OwnReads:
        """The quick way of pulls that need not wait."""

    def direct(self, asked: PullRequest, session: Session) -> Pulled | Awaitable[Pulled]:
        """Pull; the result is there at once unless it has to wait. Raises ``Refused``."""


class OwnSends(Protocol):
    """The sends that store messages at the broker, of senders that were checked."""

    @property
    def checked(self) -> Mapping[int, Callable[[Frame, Session], Answer | Awaitable[Answer]]]:
        """Request code -> the handler of its sends."""

    @property
    def quick(self) -> Mapping[int, QuickSend]:
        """Request code -> the quick way of ordinary sends."""

    @property
    def flushed(self) -> Callable[[Stored], Awaitable[Stored]]:
        """Waits until what is stored is on the disk, if the broker does so."""


@final
@frozen(kw_only=True, eq=False)
class OwnBroker:
    """The broker of this process, a ``SegmentBroker`` for the listener beside it."""

    name: str
    account: OwnAccount
    """The logical queues on its disk."""
    mappings: Mapping[str, TopicMapping]
    handlers: Handlers
    """The handlers of its port, for requests that pass through."""
    answers: OwnAnswers
    pulls: OwnPulls
    send_back: Callable[[Frame], Answer | Awaitable[Answer]]
    """Sends a message back for a client that may read it."""
    sends: OwnSends
    commit_all: Callable[[], Awaitable[None]]
    """Commits what handlers have stored outside of a read of a connection."""
    commit_offset: CommitOffset
    count_failed: Callable[[], None]
    """Counts a send that was refused."""
    store: Store
    """The store in which large answers leave their records."""

    async def call(
        self, question: Question[AskedT, ToldT], asked: AskedT, timeout_s: float
    ) -> ToldT:
        """Ask the typed handler of a question; no frame is made. Raises ``Refused``."""
        # There is no read of a connection that would commit.
        return await answer_after(self.commit_all, question.own(self.answers, asked))

    async def ask(self, frame: Frame, session: Session, timeout_s: float) -> Answer:
        """Forward a request; the answer is the handler's result."""
        return await answer_after(self.commit_all, self.answer(frame, session))

    def answer(self, frame: Frame, session: Session) -> Answer | Awaitable[Answer]:
        """Forward a request that a client's read commits; its answer is there at once, unless it
        has to wait. The listener has checked the client's rights, by its own request: of one that
        was written again nobody can say who signed it.

        A parked pull ends with the client's session. A stored message is committed with the read
        that it is called in, as always. Raises what a handler raises.
        """
        if frame.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            return self.pulls.direct(read_pull_request(frame), session)
        if frame.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            return self.send_back(frame)
        handler = self.sends.checked.get(frame.code) or self.handlers.table.get(frame.code)
        if handler is None:
            return unsupported(frame)
        answer = handler(frame, session)
        assert answer is not None, "only pulls have no answer yet"
        return cast("Answer | Awaitable[Answer]", answer)
