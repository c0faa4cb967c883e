"""Keys of etcd as ``etcdctl get --prefix "" -w json`` prints them, as entries of a snapshot.

Source: etcd 3.5.21, etcdctl's printer of JSON, mvccpb.KeyValue.
"""

from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from lanemq.wire import show_bytes
from lanemq.wire.kv import KEY_BYTES_MAX, VALUE_BYTES_MAX, LoadedEntry

from ._command import Failed

KEEP: Final = "keep"
SKIP: Final = "skip"
VERSION_MAX: Final = (1 << 63) - 1


@final
class _Header(msgspec.Struct, frozen=True):
    revision: int


@final
class _KeyValue(msgspec.Struct, frozen=True, gc=False):
    """A key; etcdctl leaves away what is 0 or empty. Bytes are in base64."""

    key: bytes
    version: int
    value: bytes = b""
    lease: int = 0


@final
class _Response(msgspec.Struct, frozen=True):
    header: _Header
    kvs: list[_KeyValue] = []
    more: bool = False
    count: int = 0


@final
class EtcdKeys(NamedTuple):
    """The keys of a file."""

    entries: list[LoadedEntry]
    """In the order of their bytes."""
    left_out: int
    """Number of keys with a lease that are not among them."""
    are_empty: bool
    """True if no key has a value."""


_DECODER: Final = msgspec.json.Decoder(_Response)


def read_etcd(path: Path, *, leased: str | None, now_ms: int) -> EtcdKeys:
    """Read all keys of a file.

    ``leased`` says what becomes of keys with a lease, ``KEEP`` or ``SKIP``. Times are
    ``now_ms``, because etcd keeps none. Raises ``Failed`` for what is not such a file, or has what
    cannot be taken over.
    """
    try:
        found = _DECODER.decode(path.read_bytes())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Failed(
            f'{path} is not what etcdctl get --prefix "" -w json prints: {error}'
        ) from error
    if found.more or found.count > len(found.kvs):
        raise Failed(
            f"{path} has {len(found.kvs)} of {found.count} keys: get all of them, without --limit"
        )
    if not found.kvs:
        raise Failed(f"{path} has no keys")
    with_lease = [one for one in found.kvs if one.lease]
    if with_lease and leased is None:
        raise Failed(
            f"{len(with_lease)} keys belong to a lease, the first is "
            f"{show_bytes(with_lease[0].key)}; the time that it has left is not in the file: "
            "--leased skip leaves them out, --leased keep takes them over for good"
        )
    kept = [one for one in found.kvs if not (one.lease and leased == SKIP)]
    entries = sorted((_entry(path, one, now_ms) for one in kept), key=lambda entry: entry.key)
    for before, entry in pairwise(entries):
        if before.key == entry.key:
            raise Failed(f"{path} has the key {show_bytes(entry.key)} twice")
    return EtcdKeys(entries, len(found.kvs) - len(kept), not any(one.value for one in found.kvs))


def _entry(path: Path, one: _KeyValue, now_ms: int) -> LoadedEntry:
    if not 0 < len(one.key) <= KEY_BYTES_MAX:
        raise Failed(
            f"{path}: the key {show_bytes(one.key)} has {len(one.key)} bytes, and has to have 1 to "
            f"{KEY_BYTES_MAX}"
        )
    if len(one.value) > VALUE_BYTES_MAX:
        raise Failed(
            f"{path}: the value of {show_bytes(one.key)} has {len(one.value)} bytes, at most "
            f"{VALUE_BYTES_MAX} are taken"
        )
    if not 0 < one.version <= VERSION_MAX:
        raise Failed(f"{path}: no key of etcd has the version {one.version}")
    return LoadedEntry(one.key, one.value, one.version, now_ms, now_ms)
