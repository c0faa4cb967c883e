"""A set of digests that takes little more memory than their bytes."""

from collections import defaultdict
from typing import Final, final

DIGEST_BYTES: Final = 16
BUCKETS_MASK: Final = 0xFFF


@final
class Digests:
    """A set of digests of ``DIGEST_BYTES`` each, whose bytes must be random.

    A ``set`` takes a hundred bytes for each, and there may be as many as peers send.
    """

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values())) // DIGEST_BYTES

    def add(self, digest: bytes) -> None:
        """Add a digest, once."""
        assert len(digest) == DIGEST_BYTES, "all are of one length"
        if digest not in self:
            self._buckets[_bucket(digest)] += digest

    def __contains__(self, digest: bytes) -> bool:
        bucket = self._buckets.get(_bucket(digest), b"")
        at = bucket.find(digest)
        while at % DIGEST_BYTES and at > 0:
            at = bucket.find(digest, at + 1)
        return at >= 0


def _bucket(digest: bytes) -> int:
    return int.from_bytes(digest[:2], "big") & BUCKETS_MASK
