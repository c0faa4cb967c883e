"""Changes of a name server's key-value configuration that are to be written together."""

from collections.abc import Mapping
from itertools import starmap
from typing import Final, final

from lanemq.wire import LocalProtocolError, Refused, RemoteProtocolError, ResponseCode, fastjson

from ..net.limits._names import name_bytes

NAME_BYTES_MAX: Final = 1024
"""The longest namespace or key, in UTF-8."""
VALUE_BYTES_MAX: Final = 64 << 10
NAMESPACES_MAX: Final = 128
TOTAL_BYTES_MAX: Final = 2 << 20
"""The sum of all names and values, with ``ENTRY_BYTES`` for each entry and namespace.

The whole table is written at each change, and a namespace is one answer."""
ENTRY_BYTES: Final = 64

Table = dict[str, dict[str, str]]
"""Namespace -> key -> value."""


@final
class KVDraft:
    """A table with changes; the one that it was made of, which others read, stays as it is.

    A table from a file may be beyond the bounds above: its keys can be deleted.
    """

    def __init__(self, table: Table) -> None:
        self.table: Table = dict(table)
        self.is_changed = False
        self.total_bytes = _total(table)
        """The bytes that count towards ``TOTAL_BYTES_MAX``."""
        self._copied: set[str] = set()

    @property
    def used(self) -> int:
        """The number of namespaces with keys."""
        return sum(map(bool, self.table.values()))

    def entries(self, namespace: str) -> Mapping[str, str]:
        """Return the keys and values of a namespace, which may be none."""
        return self.table.get(namespace, {})

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key. Raises ``Refused`` for what is beyond the bounds above, and for what the next
        start could not read."""
        self._check(namespace, key, value)
        if namespace not in self.table and len(self.table) >= NAMESPACES_MAX:
            self._drop_empty()
        before_bytes = self._bytes_of(namespace, key)
        if namespace not in self.table:
            before_bytes -= _namespace_bytes(namespace)
        total_bytes = self.total_bytes + entry_bytes(key, value) - before_bytes
        if total_bytes > max(TOTAL_BYTES_MAX, self.total_bytes):
            raise refused(
                f"that would make {total_bytes} bytes of configuration, at most "
                f"{TOTAL_BYTES_MAX} are kept; delete keys first"
            )
        alone = {namespace: {key: value}}
        if parsed(written(alone)) != alone:  # such as a key that JSON takes for a reference
            raise refused(f"a key of namespace {namespace} could not be read back")
        self._own(namespace)[key] = value
        self.total_bytes = total_bytes

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key, if it exists."""
        if key in self.entries(namespace):
            self.total_bytes -= self._bytes_of(namespace, key)
            del self._own(namespace)[key]

    def _check(self, namespace: str, key: str, value: str) -> None:
        for what, text, most in (
            ("namespace", namespace, NAME_BYTES_MAX),
            ("key", key, NAME_BYTES_MAX),
            ("value", value, VALUE_BYTES_MAX),
        ):
            if name_bytes(text) > most:
                raise refused(f"a {what} of {name_bytes(text)} bytes, at most {most} are kept")
        used = self.used
        if used >= NAMESPACES_MAX and not self.entries(namespace):
            raise refused(f"there are {used} namespaces; delete the keys of one first")

    def _own(self, namespace: str) -> dict[str, str]:
        """Return a namespace of the draft's own: each is copied once, at its first change."""
        self.is_changed = True
        if namespace not in self._copied:
            self._copied.add(namespace)
            self.table[namespace] = dict(self.entries(namespace))
        return self.table[namespace]

    def _bytes_of(self, namespace: str, key: str) -> int:
        value = self.entries(namespace).get(key)
        return 0 if value is None else entry_bytes(key, value)

    def _drop_empty(self) -> None:
        for namespace in [name for name, kept in self.table.items() if not kept]:
            del self.table[namespace]
            self._copied.discard(namespace)
            self.total_bytes -= _namespace_bytes(namespace)


def entry_bytes(key: str, value: str) -> int:
    """Return the bytes that a key counts for."""
    return ENTRY_BYTES + name_bytes(key) + name_bytes(value)


def _namespace_bytes(namespace: str) -> int:
    return ENTRY_BYTES + name_bytes(namespace)


def _total(table: Table) -> int:
    return sum(
        _namespace_bytes(namespace) + sum(starmap(entry_bytes, entries.items()))
        for namespace, entries in table.items()
    )


def refused(why: str) -> Refused:
    """Return the refusal of a change."""
    return Refused(ResponseCode.SYSTEM_ERROR, f"key-value configuration: {why}")


def written(table: Table) -> bytes:
    """Return the content of a file. Raises ``Refused`` for a table that no JSON can say."""
    try:
        return fastjson.dumps({"configTable": table}, pretty=True)
    except LocalProtocolError as error:
        raise refused(str(error)) from error


def parsed(data: bytes) -> Table | None:
    """Return the content of a file; None where it cannot be parsed."""
    try:
        return table_of(fastjson.loads(data, is_own=True))
    except RemoteProtocolError:
        return None


def table_of(content: object) -> Table:
    """Return the table in a file's JSON, without what is none."""
    table = content.get("configTable") if isinstance(content, dict) else None
    return {
        str(namespace): {str(key): str(value) for key, value in entries.items()}
        for namespace, entries in (table if isinstance(table, dict) else {}).items()
        if isinstance(entries, dict)
    }
