"""The identity of a log, by which proxies know it again."""

from hashlib import blake2b
from typing import Final, final

import msgspec

from ._queue import Stored

BIRTH_BYTES: Final = 8


def birth_of(first: Stored) -> str:
    """Return the birth of a partition of keys, by its first record.

    That has the time of its storing, and the id of a writer that was drawn, so no other log begins
    with the same.
    """
    digest = blake2b(first.stored_ms.to_bytes(8, "big", signed=True), digest_size=BIRTH_BYTES)
    digest.update(first.body)
    digest.update(first.properties)
    return digest.hexdigest()


@final
class LogName(msgspec.Struct, frozen=True, omit_defaults=True):
    """A log."""

    birth: str
    """The identity with which that of orders began; of a log of keys a digest of its first record,
    which outlives a drop of the namespace."""
    broker: str
    """The broker that has it."""
    others: tuple[str, ...] = ()
    """The births of the second partition and the next ones; empty for one that has none yet."""

    @property
    def births(self) -> tuple[str, ...]:
        """The births of all partitions."""
        return (self.birth, *self.others)

    @property
    def begun_as(self) -> str:
        """The births as one text."""
        return ", ".join(birth or "none yet" for birth in self.births)

    def agrees(self, other: "LogName") -> bool:
        """Return whether both may be the same log."""
        own, others = self.births, other.births
        return len(own) == len(others) and all(
            one == two or not (one and two) for one, two in zip(own, others, strict=True)
        )

    def joined(self, other: "LogName") -> "LogName":
        """Return one with the births of both, which agree."""
        births = [one or two for one, two in zip(self.births, other.births, strict=True)]
        return LogName(births[0], other.broker, tuple(births[1:]))

    def with_birth(self, partition: int, birth: str) -> "LogName":
        """Return one with another birth of a partition."""
        births = list(self.births)
        births[partition] = birth
        return LogName(births[0], self.broker, tuple(births[1:]))
