"""Hashes of many keys at once, by which messages are found in the index."""

import sys
from array import array
from functools import lru_cache
from struct import Struct
from typing import Final

from lanemq.wire import index_key_hash, java_hash

MASK: Final = 0xFFFFFFFF
SIGN: Final = 0x80000000
TAIL: Final = 8
"""Length of a unique key's varying end: its time and its counter. The rest stays for a minute."""
LENGTHS: Final = tuple(b"\xff%d" % size for size in range(TAIL + 1))
"""Stand for the beginning of a key that is not longer than its end."""
HEADS_MAX: Final = 1 << 14
HEAD_BYTES_MAX: Final = 255
"""Length of the longest beginning whose hash is remembered: memory must not grow with what peers
send."""
FEW: Final = 5
"""Number of keys up to which it is quicker to hash each by itself."""

Key = tuple[int, str, bytes]
"""Log position of a record, its topic, and one of its keys in UTF-8."""


def key_hashes(keys: list[Key], heads: dict[tuple[str, bytes], int]) -> list[int]:
    """Hash keys; ``heads`` remembers what those of their beginnings add.

    The ends of all keys, eight bytes each, are the lanes of one large number, with which all of
    them are computed together. Source of the hash: RocketMQ 4.9.8, IndexFile.indexKeyHashMethod.
    """
    if len(keys) <= FEW:
        return [index_key_hash(topic, key) for _, topic, key in keys]
    tails = b"".join([key[-TAIL:].rjust(TAIL, b"\0") for _, _, key in keys])
    if not tails.isascii():
        return [index_key_hash(topic, key) for _, topic, key in keys]
    bases: list[int] = []
    name, of_topic, base = b"", "", 0
    for _, topic, key in keys:
        head = key[:-TAIL] or LENGTHS[len(key)]
        if head != name or topic != of_topic:  # those of one batch begin alike
            name, of_topic = head, topic
            found = heads.get((topic, head))
            base = _head(topic, key, heads) if found is None else found
        bases.append(base)
    count = len(bases)
    text, ones = int.from_bytes(tails, "big"), _lanes(count)
    total = 0
    for number in range(TAIL):
        total = total * 31 + ((text >> 8 * (TAIL - 1 - number)) & ones)
    total += int.from_bytes(Struct(f">{count}Q").pack(*bases), "big")
    words = array("I", total.to_bytes(count * TAIL, "big"))
    if sys.byteorder == "little":
        words.byteswap()
    # The magnitude of the signed number, but 0 for the one that has none.
    return [value if value < SIGN else ((1 << 32) - value) % SIGN for value in words[1::2]]


def _head(topic: str, key: bytes, heads: dict[tuple[str, bytes], int]) -> int:
    """Compute the part of a key's hash that comes from the topic and all but the key's end."""
    name, size = key[:-TAIL], min(len(key), TAIL)
    text = f"{topic}#{name.decode('utf-8', 'replace')}"
    value = (java_hash(text) & MASK) * pow(31, size, 1 << 32) & MASK
    if len(name) <= HEAD_BYTES_MAX:
        if len(heads) >= HEADS_MAX:
            heads.clear()
        heads[topic, name or LENGTHS[len(key)]] = value
    return value


@lru_cache(maxsize=64)
def _lanes(count: int) -> int:
    """Return the lowest byte of each lane."""
    return int.from_bytes((bytes(TAIL - 1) + b"\xff") * count, "big")
