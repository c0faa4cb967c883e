"""The base of the tables under ``config``, and their backends.

A table is in memory; its ``Backend`` reads and writes it: a JSON file, or the rows of a RocksDB
database. Members of a file that are unknown here stay in it.

A file is replaced as a whole, so each entry is kept as the file has it, and a write encodes only
what changed: the store's own task in slices, between which the loop serves others. The file is the
table as of one moment; a thread writes it.
Source: RocketMQ 4.9.8, ConfigManager.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, final

import trio

from lanemq.wire import fastjson
from lanemq.wire.bodies import DataVersion

from .._errors import ConfigInvalid
from ._contents import DATA_VERSION, Contents, parse_contents
from ._document import Document

ENTRY_LEVELS: Final = 2
"""Number of JSON objects around an entry in its file."""
SLICE_BYTES: Final = 32 << 10
"""Bytes of entries that a turn of the loop encodes, a few milliseconds' worth."""
SLICE_ROWS: Final = 500
"""Rows of a database that a turn of the loop writes, a few milliseconds' worth."""


_T = TypeVar("_T")


class Backend(Protocol):
    """The place where one table is kept."""

    @property
    def path(self) -> Path:
        """The file, or the directory of the database, for messages."""

    @property
    def at_once(self) -> bool:
        """True if a change of a topic or a group is written before it is answered."""

    @property
    def steps_version(self) -> bool:
        """True if a write of offsets counts as a new version of the table."""

    @property
    def writes_all(self) -> bool:
        """True if every write writes the whole table."""

    @property
    def syncs(self) -> bool:
        """True if what is written at once is durable, too, before it is answered."""

    def load(self, *, after_crash: bool) -> Contents:
        """Read the table. Raises ``ConfigInvalid`` for something that cannot be read."""

    def write(
        self,
        source: "Table",
        changed: Collection[str],
        *,
        is_last: bool = True,
        may_wait: bool = True,
    ) -> None:
        """Keep the entries ``changed`` and the version. Raises ``OSError``; none of it counts then.

        It survives a kill of the process. A write in parts has the version in the last one. Unless
        it ``may_wait`` for the disk, it is durable after the next ``sync`` only.
        """

    async def sync(self) -> None:
        """Wait until everything written is durable. Raises ``OSError``."""

    async def beside(self, call: Callable[[], _T]) -> _T:
        """Call in a thread, where others wait for the event loop."""

    def prepare(self, others: dict[str, object]) -> None:
        """Encode members beside the table ahead of a ``write`` of them, in any thread."""


def _members(member: str, source: "Table") -> dict[str, object]:
    others = source.others_written()
    return others | {DATA_VERSION: source.data_version, member: source.entries()}


@final
class JsonBackend:
    """A table in a JSON file that every write replaces as a whole."""

    at_once = True
    steps_version = True
    writes_all = True
    syncs = False

    def __init__(self, document: Document, member: str) -> None:
        self.document = document
        self._member = member

    @property
    def path(self) -> Path:
        return self.document.path

    def load(self, *, after_crash: bool) -> Contents:
        members = self.document.load(after_crash=after_crash)
        return parse_contents(members, self._member, self.path)

    def write(
        self,
        source: "Table",
        changed: Collection[str],
        *,
        is_last: bool = True,
        may_wait: bool = True,
    ) -> None:
        self.document.write(_members(self._member, source))

    async def write_off_loop(self, source: "Table") -> None:
        """Do ``write`` with the table as of now in a thread; a newer ``write`` stays in place."""
        await self.document.write_off_loop(_members(self._member, source))

    async def sync(self) -> None:
        await self.document.sync()

    async def beside(self, call: Callable[[], _T]) -> _T:
        return await self.document.beside(call)

    def prepare(self, others: dict[str, object]) -> None:
        """Do nothing: the table keeps its members as the file has them."""


class Table:
    """A table: entries by name, the version of the data, and the changes still to be written."""

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        self.backend = backend
        """The table's place; another one may be set before ``load``."""
        self.data_version = DataVersion()
        self._clock_ms = clock_ms
        self.others_changed = False
        """True if a member beside the table has to be written."""
        self._others: dict[str, Any] = {}
        self._changed: dict[str, None] = {}  # the names, in the order of their changes
        self._stale: dict[Any, None] = {}
        """Keys of entries to encode, where every write writes the whole table."""
        self._waiting: dict[Any, None] = {}  # of these, what the write in progress has to encode
        self._dirty = False
        self._in_flight = False
        """True while an older state than the last changes is being written in a thread."""
        self._one_at_a_time = trio.Lock()
        self._others_known: dict[str, tuple[object, object]] = {}
        """Members beside the table, and as the file has them."""

    def _load(self, *, after_crash: bool) -> Mapping[str, Any]:
        contents = self.backend.load(after_crash=after_crash)
        if contents.version is not None:
            self.data_version = contents.version
        self._others = contents.others
        return contents.entries

    def _invalid(self, where: str, why: object) -> ConfigInvalid:
        return ConfigInvalid(f"{self.backend.path}, {where}: {why}")

    def _touch(self, name: str) -> None:
        """Note that ``name`` has to be written."""
        self._changed[name] = None
        self._dirty = True

    def _step(self) -> None:
        self.data_version = self.data_version.next(self._clock_ms())

    def entries(self) -> object:
        """Return all entries as one object for ``fastjson.dumps``, as of the begin of the write."""
        raise AssertionError("every table says what its entries are")

    def values(self) -> Mapping[Any, object]:
        """Return a copy of all entries by name, none of them written yet: another thread may write
        it while they change."""
        raise AssertionError("every table says what its entries are")

    def entry(self, name: str) -> object | None:
        """Return one of ``entries``; None for one that is gone."""
        raise AssertionError("every table says what its entries are")

    def others(self) -> dict[str, object]:
        """Return the members beside the table, as they are written."""
        return dict(self._others)

    def others_written(self) -> dict[str, object]:
        """Return ``others`` for ``fastjson.dumps``; one that is the same object is encoded once."""
        written: dict[str, object] = {}
        for name, value in self._others.items():
            if value is None:
                continue
            known = self._others_known.get(name)
            if known is None or known[0] is not value:
                known = self._others_known[name] = value, self._encode_other(name, value)
            written[name] = known[1]
        return written

    def _encode_other(self, name: str, value: object) -> object:
        return fastjson.dump_member(value, levels=ENTRY_LEVELS - 1)

    def _encode(self, key: Any) -> int:  # noqa: ANN401 - each table has its own
        """Encode one entry, if it is still there; return the bytes that it has."""
        raise AssertionError("every table with stale entries encodes them")

    def _begin_encoding(self) -> None:
        """Let all entries that are stale now wait to be encoded."""
        self._stale.update(self._waiting)
        self._waiting, self._stale = self._stale, {}

    def _encode_all(self) -> None:
        self._begin_encoding()
        while self._waiting:
            self._encode_some()

    def _encode_some(self) -> None:
        """Encode a slice of those that wait."""
        left = SLICE_BYTES
        while self._waiting and left > 0:
            key, _ = self._waiting.popitem()
            try:
                left -= self._encode(key)
            except BaseException:
                self._waiting[key] = None
                raise

    async def persist_in_turns(self) -> None:
        """Do ``persist`` in many short turns of the loop.

        Changes made after the call may be in it, too, or are left for the next one. A thread waits
        for the disk. Raises ``OSError`` as ``persist``.
        """
        async with self._one_at_a_time:
            self._begin_encoding()
            while self._waiting:
                self._encode_some()
                await trio.lowlevel.checkpoint()
            if isinstance(self.backend, JsonBackend):
                await self._write_off_loop(self.backend)
            else:
                await self._write_rows()

    async def _write_off_loop(self, backend: JsonBackend) -> None:
        if not self._dirty:
            return
        self._before_write()
        self._changed.clear()  # a file is written as a whole
        self._dirty, self._in_flight = bool(self._stale), True
        try:
            await backend.write_off_loop(self)
        except BaseException:
            self._dirty = True
            raise
        finally:
            self._in_flight = False

    async def _write_rows(self) -> None:
        left = len(self._changed)  # the entries know nothing of each other
        while left > 0 and len(self._changed) > SLICE_ROWS:
            names = tuple(islice(self._changed, SLICE_ROWS))
            self.backend.write(self, names, is_last=False)
            for name in names:
                del self._changed[name]
            left -= len(names)
            await trio.lowlevel.checkpoint()
        self.persist(may_wait=False)
        if self.backend.syncs:
            await self.backend.sync()

    def _persist_one(self, name: str) -> None:
        """Do ``persist`` for one entry, where many others that wait would take long."""
        if self.backend.writes_all or len(self._changed) <= SLICE_ROWS:
            self.persist()
        else:
            self.backend.write(self, (name,))
            del self._changed[name]
            self.others_changed = False

    def _before_write(self) -> None:
        """Step the version, where a write does and not the change."""

    def persist(self, *, may_wait: bool = True) -> None:
        """Write what changed, if anything. Raises ``OSError``; the change is kept then.

        On return it survives a kill, also where a thread was about to write it. ``may_wait`` is
        for ``Backend.write``.
        """
        if self._dirty or self._in_flight:
            self._encode_all()
            self._before_write()
            self.backend.write(self, self._changed, may_wait=may_wait)
            self._changed.clear()
            self.others_changed = self._dirty = False
