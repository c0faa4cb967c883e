"""Java's string hash, on which tag filters and the message index rest."""

from collections.abc import Sequence
from functools import lru_cache
from operator import mul

CHUNK = 64
# POWERS[n] are the weights of n UTF-16 units: 31^(n-1) ... 31, 1, each modulo 2^32.
POWERS = [tuple(pow(31, n - 1 - i, 1 << 32) for i in range(n)) for n in range(CHUNK + 1)]
SHIFTS = [pow(31, n, 1 << 32) for n in range(CHUNK + 1)]
SUFFIX = 12
SUFFIX_POWERS, SUFFIX_SHIFT = POWERS[SUFFIX], SHIFTS[SUFFIX]


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


_prefix_hash = lru_cache(maxsize=4096)(_unsigned_hash)


def java_hash(text: str) -> int:
    """``String.hashCode``: signed 32 bits over UTF-16 units.

    Index keys are ``topic#UNIQ_KEY``, and of such a key all but the last twelve characters
    (milliseconds and counter) stay the same for one producer: their hash is remembered.
    """
    if len(text) > SUFFIX and text.isascii():
        total: int = _prefix_hash(text[:-SUFFIX]) * SUFFIX_SHIFT + sum(
            map(mul, text[-SUFFIX:].encode(), SUFFIX_POWERS)
        )
    else:
        total = _unsigned_hash(text)
    total &= 0xFFFFFFFF
    return total - 0x100000000 if total & 0x80000000 else total


@lru_cache(maxsize=4096)
def tags_code(tags: str | None) -> int:
    """What a consume queue stores for the TAGS of a message: its hash, 0 without tags.

    Both topic filter types use this rule. Source: RocketMQ 4.9.8,
    MessageExtBrokerInner.tagsString2tagsCode.
    """
    return java_hash(tags) if tags else 0
