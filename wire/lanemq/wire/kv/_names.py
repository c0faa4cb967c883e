"""Names and limits of the key-value store.

Source: the proposal "Support KV semantic storage" (RIP-22), which Apache RocketMQ never took in.
"""

import re
from typing import Final
from zlib import crc32

from .._names import KV_PREFIX

DEFAULT_NAMESPACE: Final = "default"
LONE_BROKER: Final = "*"
"""The place of a new namespace: the broker that is asked, if no other could have it."""
OP_TYPE_PROPERTY: Final = "kv_opType"
KEY_PROPERTY: Final = "key"
CLIENT_PROPERTY: Final = "kv_client"
"""Property with the id of the writer, its sequence number, and the lowest one it still waits for:
``id:sequence:waits``."""

KEY_BYTES_MAX: Final = 4 << 10
VALUE_BYTES_MAX: Final = 4 << 20
OPERATION_BYTES_MAX: Final = VALUE_BYTES_MAX + (16 << 10)
"""Longest body of an operation, and so of a record: all keys and values of a batch together."""
STEPS_MAX: Final = 1024
"""Most keys of one batch or multi-get."""
PAGE_ENTRIES_MAX: Final = 1000
PAGE_BYTES_MAX: Final = 1 << 20
HASH_BYTES: Final = 32
"""Length of the hash of a state."""
TTL_MS_MAX: Final = 10 * 365 * 86_400_000
CLIENT_CHARACTERS_MAX: Final = 64
NAMESPACE_CHARACTERS_MAX: Final = 64
PARTITIONS_MAX: Final = 64
PARTITION_MARK: Final = "@"
"""Character that no namespace has."""
NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")


def kv_topic(namespace: str) -> str:
    """Return the topic whose queue is the log of a namespace."""
    return KV_PREFIX + namespace


def kv_namespace(topic: str) -> str | None:
    """Return the namespace whose log a topic is; None for any other topic."""
    return topic[len(KV_PREFIX) :] if topic.startswith(KV_PREFIX) else None


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a namespace of ``partitions`` partitions."""
    return crc32(key) % partitions if partitions > 1 else 0


def partition_name(namespace: str, partition: int) -> str:
    """Return the name of a partition: that of the namespace for the first, ``N@1`` and so on."""
    return f"{namespace}{PARTITION_MARK}{partition}" if partition else namespace


def parse_partition(name: str) -> tuple[str, int]:
    """Read ``partition_name``: the namespace, and the number of the partition."""
    namespace, _, number = name.partition(PARTITION_MARK)
    return namespace, int(number) if number.isdecimal() else 0


def namespace_problem(namespace: str) -> str | None:
    """Return the reason why a name is not legal for a namespace; None for a legal one."""
    return _problem("namespace", namespace, NAMESPACE_CHARACTERS_MAX)


def client_problem(client: str) -> str | None:
    """Return the reason why an id is not legal for a writer; None for a legal one."""
    return _problem("client id", client, CLIENT_CHARACTERS_MAX)


def _problem(kind: str, name: str, characters_max: int) -> str | None:
    if len(name) > characters_max:
        return f"a {kind} of {len(name)} characters, at most {characters_max} are taken"
    if not NAME.fullmatch(name):
        return f"the {kind} {name!r} is empty or has characters other than letters, digits, _ and -"
    return None
