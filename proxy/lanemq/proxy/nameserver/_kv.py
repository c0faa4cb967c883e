"""The name server's key-value configuration: namespaces of keys, kept in one small file.

The one namespace with a meaning to servers is ORDER_TOPIC_CONFIG. The file is Apache's.
Source: RocketMQ 4.9.8, KVConfigManager, KVConfigSerializeWrapper.
"""

from pathlib import Path
from typing import final

from lanemq.local import get_logger, replace_file, write_file
from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire.bodies import KVTable

from ._kv_draft import KVDraft, Table, parsed, refused, table_of, written

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)


@final
class KVConfig:
    """The table, written to ``path`` (None: kept in memory only) at every ``write``.

    Changes take a while, and are made by one thread at a time; others may read meanwhile.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._table: Table = _load(path) if path is not None else {}
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

    def draft(self) -> KVDraft:
        """Return a copy of the table for changes, which nobody sees until ``write``."""
        return KVDraft(self._table)

    def write(self, draft: KVDraft) -> None:
        """Write all changes of a draft at once.

        Raises ``OSError`` if it cannot be written, and ``Refused`` if it could not be read back:
        all old values are kept then.
        """
        if not draft.is_changed:
            return
        if self._path is not None:
            data = written(draft.table)
            if parsed(data) != draft.table:
                raise refused("the table could not be read back")
            replace_file(self._path, data)
        self._table = draft.table


def _load(path: Path) -> Table:
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
    return table_of(content)
