"""What the tables under ``config`` share, and the place each of them is kept in.

A table is in memory; its ``Backend`` reads and writes it: a JSON file, or the rows of a RocksDB
database. What a file has beyond what is known here stays in it.
Source: RocketMQ 4.9.8, ConfigManager.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, final

from lanemq.wire import DataVersion, RemoteProtocolError

from ._document import Document
from ._errors import ConfigInvalid

DATA_VERSION: Final = "dataVersion"


class Contents(NamedTuple):
    """All of a table, as JSON values."""

    entries: dict[str, Any]
    version: DataVersion | None
    """None where it was never written."""
    others: dict[str, Any]
    """The members beside the table itself."""


class Source(Protocol):
    """What a backend may ask the table that it writes."""

    data_version: DataVersion
    others_changed: bool

    def entries(self) -> Mapping[Any, object]:
        """All of them, for ``fastjson.dumps``."""

    def entry(self, name: str) -> object | None:
        """One of them; None for one that is gone."""

    def others(self) -> dict[str, object]:
        """The members beside the table."""


class Backend(Protocol):
    """Where one table is kept."""

    @property
    def path(self) -> Path:
        """For messages: the file, or the directory of the database."""

    @property
    def at_once(self) -> bool:
        """Whether a change of a topic or a group is written before it is answered."""

    @property
    def steps_version(self) -> bool:
        """Whether a write of offsets counts as a new version of the table."""

    def load(self, *, after_crash: bool) -> Contents:
        """Raises ``ConfigInvalid`` where there is something that cannot be read."""

    def write(self, source: Source, changed: Collection[str]) -> None:
        """Keep the entries ``changed`` and the version. Raises ``OSError``; none of it counts then.

        It survives a kill of the process.
        """

    async def sync(self) -> None:
        """Return once all that was written is durable. Raises ``OSError``."""


def parse_contents(members: dict[str, Any], member: str, path: Path) -> Contents:
    """Take a JSON file apart: the table is in ``member``. Raises ``ConfigInvalid``."""
    others = dict(members)
    table = others.pop(member, None)
    version = others.pop(DATA_VERSION, None)
    table = {} if table is None else table
    if not isinstance(table, dict):
        raise ConfigInvalid(f"{path}, {member}: it is no object")
    try:
        parsed = DataVersion.from_json(version) if version is not None else None
    except RemoteProtocolError as error:
        raise ConfigInvalid(f"{path}, {DATA_VERSION}: {error}") from error
    return Contents(table, parsed, others)


def write_document(document: Document, member: str, source: Source) -> None:
    """Write a whole table as a JSON file. Raises ``OSError``."""
    others = source.others()
    document.write(others | {DATA_VERSION: source.data_version, member: source.entries()})


@final
class JsonBackend:
    """A table in a JSON file, which every write replaces as a whole."""

    at_once = True
    steps_version = True

    def __init__(self, document: Document, member: str) -> None:
        self.document = document
        self._member = member

    @property
    def path(self) -> Path:
        return self.document.path

    def load(self, *, after_crash: bool) -> Contents:
        members = self.document.load(after_crash=after_crash)
        return parse_contents(members, self._member, self.path)

    def write(self, source: Source, changed: Collection[str]) -> None:
        write_document(self.document, self._member, source)

    async def sync(self) -> None:
        await self.document.sync()


class Table:
    """Entries by name, the version of the data, and what has to be written."""

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        self.backend = backend
        """Where it is kept; another one may be put here before ``load``."""
        self.data_version = DataVersion()
        self._clock_ms = clock_ms
        self.others_changed = False
        """Whether a member beside the table has to be written."""
        self._others: dict[str, Any] = {}
        self._changed: dict[str, None] = {}  # the names, in the order of their changes
        self._dirty = False

    def _load(self, *, after_crash: bool) -> Mapping[str, Any]:
        contents = self.backend.load(after_crash=after_crash)
        if contents.version is not None:
            self.data_version = contents.version
        self._others = contents.others
        return contents.entries

    def _invalid(self, where: str, why: object) -> ConfigInvalid:
        return ConfigInvalid(f"{self.backend.path}, {where}: {why}")

    def _touch(self, name: str) -> None:
        """``name`` has to be written."""
        self._changed[name] = None
        self._dirty = True

    def _step(self) -> None:
        self.data_version = self.data_version.next(self._clock_ms())

    def entries(self) -> Mapping[Any, object]:
        """All entries by name, as they are written."""
        raise AssertionError("every table says what its entries are")

    def entry(self, name: str) -> object | None:
        """One of ``entries``."""
        raise AssertionError("every table says what its entries are")

    def others(self) -> dict[str, object]:
        """The members beside the table, as they are written."""
        return dict(self._others)

    def persist(self) -> None:
        """Write what changed, if anything. Raises ``OSError``; the change is kept then."""
        if self._dirty:
            self.backend.write(self, self._changed)
            self._changed.clear()
            self.others_changed = self._dirty = False
