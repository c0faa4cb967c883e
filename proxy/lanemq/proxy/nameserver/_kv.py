"""The name server's key-value configuration: namespaces of keys, kept in one small file.

The one namespace with a meaning to servers is ORDER_TOPIC_CONFIG. The file is Apache's.
Source: RocketMQ 4.9.8, KVConfigManager, KVConfigSerializeWrapper.
"""

from itertools import starmap
from pathlib import Path
from typing import Final, final

from lanemq.local import get_logger, replace_file, write_file
from lanemq.wire import LocalProtocolError, Refused, RemoteProtocolError, ResponseCode, fastjson
from lanemq.wire.bodies import KVTable

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)

NAME_BYTES_MAX: Final = 1024
"""The longest namespace or key, in UTF-8."""
VALUE_BYTES_MAX: Final = 64 << 10
NAMESPACES_MAX: Final = 128
TOTAL_BYTES_MAX: Final = 2 << 20
"""The sum of all names and values, with ``ENTRY_BYTES`` for each entry and namespace.

The whole table is written at each change, and a namespace is one answer."""
ENTRY_BYTES: Final = 64


@final
class KVConfig:
    """The table, written to ``path`` (None: kept in memory only) at every change.

    Changes take a while, and are made by one thread at a time; others may read meanwhile.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._table: dict[str, dict[str, str]] = _load(path) if path is not None else {}
        self._answered: dict[str, tuple[dict[str, str], bytes]] = {}
        """Namespace -> its keys and the body of answers with them."""

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value of a key, or None."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all keys of a namespace, or None if nothing was ever put there."""
        table = self._table.get(namespace)
        return None if table is None else dict(table)

    def answer(self, namespace: str) -> bytes:
        """Return the body of an answer with all keys of a namespace; empty if there are none.

        It is written once after a change: many brokers get the same.
        """
        table = self._table.get(namespace)
        if table is None:
            return b""
        known = self._answered.get(namespace)
        if known is None or known[0] is not table:
            known = self._answered[namespace] = table, KVTable(table).encode()
        return known[1]

    @property
    def used(self) -> int:
        """The number of namespaces with keys."""
        return sum(1 for entries in self._table.values() if entries)

    @property
    def total_bytes(self) -> int:
        """The bytes that count towards ``TOTAL_BYTES_MAX``."""
        return _total(self._table)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key. Raises ``OSError``, with the old value kept, if it cannot be written.

        Raises ``Refused`` for what is beyond the bounds above, and for what the next start could
        not read. A table from a file may be beyond the bounds: its keys can be deleted.
        """
        self._check(namespace, key, value)
        self._replace(namespace, self._table.get(namespace, {}) | {key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key, if it exists. Raises ``OSError`` as ``put`` does."""
        if self.get(namespace, key) is not None:
            rest = {name: value for name, value in self._table[namespace].items() if name != key}
            self._replace(namespace, rest)

    def _check(self, namespace: str, key: str, value: str) -> None:
        for what, text, most in (
            ("namespace", namespace, NAME_BYTES_MAX),
            ("key", key, NAME_BYTES_MAX),
            ("value", value, VALUE_BYTES_MAX),
        ):
            if _size(text) > most:
                raise refused(f"a {what} of {_size(text)} bytes, at most {most} are kept")
        used = self.used
        if used >= NAMESPACES_MAX and not self._table.get(namespace):
            raise refused(f"there are {used} namespaces; delete the keys of one first")

    def _replace(self, namespace: str, entries: dict[str, str]) -> None:
        table = self._table | {namespace: entries}
        if len(table) > NAMESPACES_MAX:
            table = {name: kept for name, kept in table.items() if kept or name == namespace}
        total_bytes = _total(table)
        if total_bytes > max(TOTAL_BYTES_MAX, _total(self._table)):
            raise refused(
                f"that would make {total_bytes} bytes of configuration, at most "
                f"{TOTAL_BYTES_MAX} are kept; delete keys first"
            )
        if self._path is not None:
            data = _written(table)
            if _parsed(data) != table:  # such as a key that JSON takes for a reference
                raise refused(f"a key of namespace {namespace} could not be read back")
            replace_file(self._path, data)
        self._table = table


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def entry_bytes(key: str, value: str) -> int:
    """Return the bytes that a key counts for."""
    return ENTRY_BYTES + _size(key) + _size(value)


def _total(table: dict[str, dict[str, str]]) -> int:
    return sum(
        ENTRY_BYTES + _size(namespace) + sum(starmap(entry_bytes, entries.items()))
        for namespace, entries in table.items()
    )


def refused(why: str) -> Refused:
    """Return the refusal of a change."""
    return Refused(ResponseCode.SYSTEM_ERROR, f"key-value configuration: {why}")


def _written(table: dict[str, dict[str, str]]) -> bytes:
    try:
        return fastjson.dumps({"configTable": table}, pretty=True)
    except LocalProtocolError as error:
        raise refused(str(error)) from error


def _parsed(data: bytes) -> dict[str, dict[str, str]] | None:
    """Return the content of a file; None where it cannot be parsed."""
    try:
        return _table_of(fastjson.loads(data, is_own=True))
    except RemoteProtocolError:
        return None


def _load(path: Path) -> dict[str, dict[str, str]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        content = fastjson.loads(data, is_own=True)
    except RemoteProtocolError as error:
        # As Apache does: a name server with routes and without these keys is worth more
        # than none. The file is overwritten at the next change, so a copy is kept.
        kept = path.with_name(path.name + ".unreadable")
        write_file(kept, data)
        LOGGER.error("%s cannot be read (%s); starting without it, kept as %s", path, error, kept)
        return {}
    return _table_of(content)


def _table_of(content: object) -> dict[str, dict[str, str]]:
    table = content.get("configTable") if isinstance(content, dict) else None
    return {
        str(namespace): {str(key): str(value) for key, value in entries.items()}
        for namespace, entries in (table if isinstance(table, dict) else {}).items()
        if isinstance(entries, dict)
    }
