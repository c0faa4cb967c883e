"""The keys of a message, by which the index finds it."""

from itertools import islice
from typing import Final

from lanemq.wire.message import Property, get_property

KEYS_MAX: Final = 64
"""Most keys of KEYS under which a message is found: its first different ones. (Apache's brokers
index every word of KEYS, however often it is repeated.)"""
KEY_BYTES: Final = 64
"""Length of properties that takes as long to hash as a key."""
UNIQ_KEY: Final = Property.UNIQ_KEY.encode()
KEYS: Final = Property.KEYS.encode()


def split_keys(keys: bytes) -> list[bytes]:
    """Return the keys in a KEYS property under which its message is indexed: each once."""
    if b" " not in keys:
        return [keys]
    different = dict.fromkeys(keys.split(b" "))
    different.pop(b"", None)
    return list(islice(different, KEYS_MAX))


def keys_at_most(properties: bytes) -> int:
    """Return how many keys the properties of a message may have, as to the time they take to be
    indexed: its unique key, the message itself, each further word, and as many more as are long."""
    return 2 + properties.count(b" ") + len(properties) // KEY_BYTES


def key_data_of(properties: bytes) -> list[bytes]:
    """Return the keys by which a message is found, in UTF-8: its unique key, then its others."""
    unique = get_property(properties, UNIQ_KEY)
    keys = get_property(properties, KEYS)
    return ([unique] if unique else []) + (split_keys(keys) if keys else [])


def keys_of(properties: bytes) -> list[str]:
    """Return ``key_data_of`` as text."""
    return [key.decode("utf-8", "replace") for key in key_data_of(properties)]


def has_key(properties: bytes, key: str) -> bool:
    """Return whether ``key`` is the unique key of a message or any of its other keys."""
    unique, others = (
        get_property(properties, UNIQ_KEY) or b"",
        get_property(properties, KEYS) or b"",
    )
    if "\ufffd" in key:  # it may stand for bytes that are no UTF-8
        unique, others = (text.decode("utf-8", "replace").encode() for text in (unique, others))
    data = key.encode("utf-8", "replace")
    if not data:
        return False
    return data == unique or (b" " not in data and b" %b " % data in b" %b " % others)
