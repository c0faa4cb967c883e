"""Names and limits of the key-value store.

Source: the proposal "Support KV semantic storage" (RIP-22), which Apache RocketMQ never took in.
"""

import re
from hashlib import blake2b
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
``id:sequence:waits``. The id of an account's writer is ``owned_client``."""
OWNER_MARK: Final = "/"
"""Character that no client id has. Behind it is the account that a writer belongs to."""
SEQUENCE_MAX: Final = 10**18 - 1
"""Greatest sequence number of a write: the log has 18 digits for it."""
IDENTITY_PROPERTY: Final = "kv_identity"
"""Property with the identity of the namespace, in the first record of a partition; in the log of
an earlier version in a later one. From that record on versions never come again."""

TIME_PROPERTY: Final = "kv_time"
"""Property with the log's time of a record in milliseconds, where that of its storing is another:
after a step of the broker's clock."""

LESSOR_PROPERTY: Final = "kv_lessor"
"""Property of a record about leases: who has asked for it, as ``lessor_of`` names them."""

BOUNDS_PROPERTY: Final = "kv_bounds"
"""Property of a record from which on the results of a writer, and the changes that are known, have
bounds in bytes. Those of earlier versions had bounds in number alone, and the records before make
what they made. Servers set it until the partition's state has one such record."""

KEY_BYTES_MAX: Final = 4 << 10
VALUE_BYTES_MAX: Final = 4 << 20
OPERATION_BYTES_MAX: Final = VALUE_BYTES_MAX + (16 << 10)
"""Longest body of an operation, and so of a record: all keys and values of a batch together."""
STEPS_MAX: Final = 1024
"""Most keys of one batch or multi-get."""
LOAD_ENTRIES_MAX: Final = 1024
"""Most entries of one load: they are applied in one turn of the broker's loop, at some ten
microseconds each where they expire, or replace others that do. Servers take none with more; a
record that has them changes nothing once a partition has bounds (``BOUNDS_PROPERTY``)."""
PAGE_ENTRIES_MAX: Final = 1000
PAGE_BYTES_MAX: Final = 1 << 20
HASH_BYTES: Final = 32
"""Length of the hash of a state."""
TTL_MS_MAX: Final = 10 * 365 * 86_400_000
LEASE_MAX: Final = (1 << 53) - 1
"""Greatest number of a lease: JSON readers that know no integers keep it exact."""
LEASE_KEYS_MAX: Final = 1024
"""Most keys of one lease in a partition: they go together, in one record."""
LEASE_BYTES_MAX: Final = 256 << 10
"""Most bytes of these keys, in a partition that has bounds in bytes (``BOUNDS_PROPERTY``)."""
LEASES_MAX: Final = 50_000
"""Most leases of a partition, of which one lessor has a fifth at most."""
CLIENT_CHARACTERS_MAX: Final = 64
OWNER_BYTES: Final = 16
"""Length of the digest of the account of a writer."""
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


def owned_client(client: str, account: str) -> str:
    """Return the id of a writer of an account; ``client`` itself where no account has signed.

    The id that a client has chosen is followed by a digest of both. So writers of two accounts are
    never one, and readers of the log are told which writes are one writer's, and not whose.
    """
    if not client or not account:
        return client
    data = f"{client}{OWNER_MARK}{account}".encode("utf-8", "surrogatepass")
    return f"{client}{OWNER_MARK}{blake2b(data, digest_size=OWNER_BYTES).hexdigest()}"


def chosen_client(writer: str) -> str | None:
    """Return the id that the client of an account's writer has chosen; None for any other."""
    client, mark, _ = writer.partition(OWNER_MARK)
    return client if client and mark else None


def lessor_of(account: str, host: str) -> str:
    """Return the name of whoever asks for a lease: a digest of the account, or else the address.

    A lease belongs to its lessor's account. Those that are granted without one are everybody's
    who needs none; their addresses have shares of them.
    """
    if not account:
        return host
    data = account.encode("utf-8", "surrogatepass")
    return OWNER_MARK + blake2b(data, digest_size=OWNER_BYTES, person=b"lessor").hexdigest()


def lessor_account(lessor: str) -> str:
    """Return the part of ``lessor_of`` to which a lease belongs; empty without an account."""
    return lessor if lessor.startswith(OWNER_MARK) else ""


def client_problem(client: str) -> str | None:
    """Return the reason why an id is not legal for a writer; None for a legal one."""
    return _problem("client id", client, CLIENT_CHARACTERS_MAX)


def identity_problem(identity: str) -> str | None:
    """Return the reason why a text is no identity of a namespace; None for a legal one."""
    return _problem("identity", identity, CLIENT_CHARACTERS_MAX)


def _problem(kind: str, name: str, characters_max: int) -> str | None:
    if len(name) > characters_max:
        return f"a {kind} of {len(name)} characters, at most {characters_max} are taken"
    if not NAME.fullmatch(name):
        return f"the {kind} {name!r} is empty or has characters other than letters, digits, _ and -"
    return None
