"""Java's string hash, on which tag filters and the message index rest."""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import mul

from ._numbers import INT_MAX

CHUNK = 64
# POWERS[n] are the weights of n UTF-16 units: 31^(n-1) ... 31, 1, each modulo 2^32.
POWERS = [tuple(pow(31, n - 1 - i, 1 << 32) for i in range(n)) for n in range(CHUNK + 1)]
SHIFTS = [pow(31, n, 1 << 32) for n in range(CHUNK + 1)]
SUFFIX = 12
SUFFIX_SHIFT = SHIFTS[SUFFIX]


def _units(text: str) -> Sequence[int]:
    if text.isascii():
        return text.encode()
    data = text.encode("utf-16-be", "surrogatepass")
    return [(high << 8) | low for high, low in zip(data[::2], data[1::2], strict=True)]


def _unsigned_hash(text: str) -> int:
    units = _units(text)
    if len(units) <= CHUNK:
        return sum(map(mul, units, POWERS[len(units)]))
    total = 0
    for start in range(0, len(units), CHUNK):
        chunk = units[start : start + CHUNK]
        total = (total * SHIFTS[len(chunk)] + sum(map(mul, chunk, POWERS[len(chunk)]))) & 0xFFFFFFFF
    return total


PAIRS = [(pair >> 8) * 31 + (pair & 0xFF) for pair in range(0x8080)]
"""The hash of two ASCII characters, by their two bytes as a number."""
_pairs_at: Callable[[bytes, int], tuple[int, ...]] = struct.Struct(">6H").unpack_from


def _suffix_hash(data: bytes, at: int) -> int:
    """Return the hash of the ``SUFFIX`` ASCII characters from ``at`` on, two at a time."""
    a, b, c, d, e, f = _pairs_at(data, at)
    total = (PAIRS[a] * 961 + PAIRS[b]) * 961 + PAIRS[c]
    return ((total * 961 + PAIRS[d]) * 961 + PAIRS[e]) * 961 + PAIRS[f]


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: signed 32 bits over UTF-16 units."""
    total = _unsigned_hash(text) & 0xFFFFFFFF
    return total - 0x100000000 if total & 0x80000000 else total


REMEMBERED_MAX = 255
"""Length of the longest key whose hash is remembered: memory must not grow with what peers send."""


@lru_cache(maxsize=4096)
def _key_prefix_hash(topic: str, prefix: bytes) -> int:
    return _unsigned_hash(f"{topic}#{prefix.decode()}") * SUFFIX_SHIFT


def index_key_hash(topic: str, key: bytes) -> int:
    """Return the hash by which the message index finds a key (in UTF-8) of a topic; never negative.

    Of a unique key all but the last twelve characters (milliseconds and counter) stay the same
    for one producer: their hash is remembered.
    Source: RocketMQ 4.9.8, IndexFile.indexKeyHashMethod.
    """
    size = len(key)
    if SUFFIX < size <= REMEMBERED_MAX and key.isascii():
        total = _key_prefix_hash(topic, key[:-SUFFIX]) + _suffix_hash(key, size - SUFFIX)
    else:
        total = _unsigned_hash(f"{topic}#{key.decode('utf-8', 'replace')}")
    total &= 0xFFFFFFFF
    if total & 0x80000000:
        total = 0x100000000 - total
    return total if total <= INT_MAX else 0  # Math.abs leaves the least integer negative


def tags_code(tags: str | None) -> int:
    """Return the tags code of a consume queue unit: the hash of a message's TAGS, 0 without tags.

    Both topic filter types use this rule. Source: RocketMQ 4.9.8,
    MessageExtBrokerInner.tagsString2tagsCode.
    """
    return java_hash(tags) if tags else 0
