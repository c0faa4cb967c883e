"""The name server's key-value configuration: namespaces of keys, kept in one small file.

The one namespace with a meaning to servers is ORDER_TOPIC_CONFIG. The file is Apache's.
Source: RocketMQ 4.9.8, KVConfigManager, KVConfigSerializeWrapper.
"""

import logging
import os
from pathlib import Path
from typing import final

from lanemq.wire import RemoteProtocolError, fastjson

LOGGER = logging.getLogger("lanemq.proxy.nameserver")

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace: topic -> its number of queues per broker, for ordered messages."""


@final
class KVConfig:
    """The table, written to ``path`` (None: kept in memory only) at every change."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._table: dict[str, dict[str, str]] = _load(path) if path is not None else {}

    def get(self, namespace: str, key: str) -> str | None:
        """The value of a key, or None."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All keys of a namespace, or None if nothing was ever put there."""
        table = self._table.get(namespace)
        return None if table is None else dict(table)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key. Raises ``OSError``, with the old value kept, if it cannot be written."""
        self._replace(namespace, self._table.get(namespace, {}) | {key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key; one that is not there is no error. Raises ``OSError`` as ``put`` does."""
        if self.get(namespace, key) is not None:
            rest = {name: value for name, value in self._table[namespace].items() if name != key}
            self._replace(namespace, rest)

    def _replace(self, namespace: str, entries: dict[str, str]) -> None:
        table = self._table | {namespace: entries}
        if self._path is not None:
            data = fastjson.dumps({"configTable": table}, pretty=True)
            write_whole(self._path, data)
        self._table = table


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file so that after a crash it holds the old or the new text, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _load(path: Path) -> dict[str, dict[str, str]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        content = fastjson.loads(data)
    except RemoteProtocolError as error:
        # As Apache does: a name server with routes and without these keys is worth more
        # than none. The file is overwritten at the next change, so a copy is kept.
        kept = path.with_name(path.name + ".unreadable")
        kept.write_bytes(data)
        LOGGER.error("%s cannot be read (%s); starting without it, kept as %s", path, error, kept)
        return {}
    table = content.get("configTable") if isinstance(content, dict) else None
    return {
        str(namespace): {str(key): str(value) for key, value in entries.items()}
        for namespace, entries in (table if isinstance(table, dict) else {}).items()
        if isinstance(entries, dict)
    }
