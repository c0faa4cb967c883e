"""Remarks, the type of commits, and a question of some clients, at brokers and listeners alike."""

from collections.abc import Container
from typing import Final, Protocol, final

from msgspec.structs import replace

from lanemq.wire import Version
from lanemq.wire.frame import JAVA, Frame
from lanemq.wire.headers import QueryConsumerOffset

NO_OFFSET: Final = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
"""The remark for a group without an offset, word for word the reference's."""
NO_MESSAGE: Final = "can not find message, maybe time range not correct"
"""The remark for a search by key without a result."""


class CommitOffset(Protocol):
    """Keeps a group's offset; see ``BrokerContext.commit_offset``."""

    def __call__(
        self, group: str, topic: str, queue_id: int, offset: int, *, hops: int = 0
    ) -> None: ...


@final
class _Any(Container[int]):
    """A container of all response codes: every answer is accepted."""

    def __contains__(self, code: object) -> bool:
        return True


ANY_CODE: Final = _Any()


def as_of_client(header: QueryConsumerOffset, frame: Frame) -> QueryConsumerOffset:
    """Return the question of a client for its group's offset, as it can use the answer.

    Java clients 5.0.0 ask not to be told 0 for a queue in which their group is new, and then begin
    at the queue's end: of a topic made by its first messages they miss these. No other release of
    that client asks for it: they begin at 0, and so does this one here.
    """
    is_java_5 = frame.language == JAVA and frame.version >= Version.V5_0_0
    if is_java_5 and header.set_zero_if_not_found is False:
        return replace(header, set_zero_if_not_found=None)
    return header
