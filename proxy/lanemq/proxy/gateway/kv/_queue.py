"""The interface to a queue of the upstream cluster that is the log of a partition of keys."""

from typing import NamedTuple, Protocol


class NotYet(Exception):  # noqa: N818 - says what happened
    """The cluster cannot do it now: ask again. The text says why.

    Of an append it is not known then whether the record is, or will be, in the log.
    """


class NoAccount(NotYet):
    """The broker asks for an account, which the proxy has not."""


class NoSuchTopic(NotYet):
    """The broker has no topic of this name now."""


class TooLong(Exception):  # noqa: N818 - says what happened
    """The cluster takes no record of this length."""


class Stored(NamedTuple):
    """A record as the upstream broker has it."""

    offset: int
    """Its number in the queue, from 0."""
    stored_ms: int
    """The time of its storing, by the clock of the upstream broker, in milliseconds since 1970."""
    body: bytes
    properties: bytes


class Pulled(NamedTuple):
    """The records from an offset on, one after another, and the bounds of the queue then."""

    records: list[Stored]
    begin: int
    """Offset of the first record that is still there."""
    end: int
    """Offset of the next record."""


class LogQueue(Protocol):
    """One queue of an upstream topic. Every method raises ``NotYet``."""

    async def pull(self, offset: int, *, wait_s: float) -> Pulled:
        """Return some records from ``offset`` on; where there is none, wait for one a while."""

    async def append(self, body: bytes, properties: bytes) -> None:
        """Append a record. Raises ``TooLong``."""

    async def end(self) -> int:
        """Return the offset of the next record. All records that were ever pulled lie before it."""
