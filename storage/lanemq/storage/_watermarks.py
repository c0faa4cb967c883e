"""How much of the log is durably in which index: ``config/dispatchWatermark.json``.

A watermark is a position of the log: every record before it that belongs in the index is in it,
and will be after a loss of power. It may lag behind, never run ahead: data first, then the
watermark. So whatever another process did to the store meanwhile, a redo from the watermark
repairs it. Apache RocketMQ has no such file and leaves it alone.
"""

import logging
from pathlib import Path
from typing import Final, final

import msgspec

from ._config import Stage
from ._files import Files

LOGGER = logging.getLogger(__name__)
FILE_NAME: Final = "dispatchWatermark.json"
VERSION: Final = 1


def watermark_path(root: Path) -> Path:
    """The file in a store directory."""
    return root / "config" / FILE_NAME


@final
class RocksCover(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The part of the log that RocksDB has durably. Positions count bytes of the log."""

    identity: str
    """Of the database, from its file ``IDENTITY``: another one starts anew."""
    begin: int
    """Records before it may be missing."""
    end: int
    """The watermark: all from ``begin`` up to here are in it."""
    filled: int = 0
    """Of what lies before ``begin``, all up to here is in it as well."""

    def at_most(self, log_end: int) -> "RocksCover":
        """The same for a log that ends there."""
        return msgspec.structs.replace(
            self, begin=min(self.begin, log_end), end=min(self.end, log_end)
        )


@final
class Watermarks(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the file says. Positions count bytes of the log."""

    stage: int
    """The ``Stage`` that wrote this."""
    checkpoint_ms: int
    """The log's time in the checkpoint that belongs to this: a higher one is another process's."""
    files: int
    """The watermark of the queue files."""
    index: int
    """The watermark of the key index."""
    rocksdb: RocksCover | None = None
    """None as long as the store had no RocksDB."""
    deleted: dict[str, int] = {}
    """Topic -> end of the log when the topic was deleted: its older records belong nowhere."""
    version: int = VERSION

    @property
    def is_new(self) -> bool:
        """Whether the log had nothing yet."""
        return not (self.files or self.index or (self.rocksdb is not None and self.rocksdb.end))


@final
class WatermarkFile:
    """The file. One that is missing or not readable only means that less is known."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self.path = watermark_path(root)

    def load(self) -> Watermarks | None:
        """What was written last; None where that is not known."""
        data = self._files.read_all(self.path)
        if data is None:
            return None
        try:
            found = msgspec.json.decode(data, type=Watermarks)
        except msgspec.DecodeError as error:
            LOGGER.warning("%s is not used: %s", self.path, error)
            return None
        if found.version != VERSION:
            LOGGER.warning("%s is not used: its version is %d", self.path, found.version)
            return None
        return found

    def write(self, watermarks: Watermarks) -> None:
        """Replace the file, unsynced. Raises ``OSError``; the old one is in place then."""
        self._files.move(self._prepare(watermarks), self.path)

    async def write_durably(self, watermarks: Watermarks) -> None:
        """Replace the file, and return once that survives a loss of power. Raises ``OSError``."""
        temporary = self._prepare(watermarks)
        await self._files.sync_path(temporary)
        self._files.move(temporary, self.path)
        await self._files.sync_path(self.path.parent)

    def _prepare(self, watermarks: Watermarks) -> Path:
        temporary = self.path.with_name(self.path.name + ".tmp")
        data = msgspec.json.format(msgspec.json.encode(watermarks), indent=1)
        self._files.write_all(temporary, data + b"\n")
        return temporary


@final
class Progress:
    """The watermarks of an open store; what changes here is written by ``save``."""

    def __init__(self, file: WatermarkFile, stage: Stage) -> None:
        self._file = file
        self._stage = stage
        self.files = 0
        self.index = 0
        self.rocksdb: RocksCover | None = None
        self.deleted: dict[str, int] = {}
        """Shared with those who dispatch again what is in the log."""
        self.checkpoint_ms = 0

    def load(self) -> Watermarks | None:
        """What an earlier run left; None where that is not known."""
        known = self._file.load()
        if known is not None:
            self.files, self.index, self.rocksdb = known.files, known.index, known.rocksdb
            self.deleted.update(known.deleted)
            self.checkpoint_ms = known.checkpoint_ms
        return known

    def _watermarks(self) -> Watermarks:
        return Watermarks(
            stage=self._stage,
            checkpoint_ms=self.checkpoint_ms,
            files=self.files,
            index=self.index,
            rocksdb=self.rocksdb,
            deleted=self.deleted,
        )

    def end_at(self, log_end: int) -> None:
        """Say where the log ends now: what is put there from now on was not deleted before."""
        for topic, end in self.deleted.items():
            self.deleted[topic] = min(end, log_end)

    def note_deleted(self, topic: str, log_end: int) -> None:
        """Remember that a topic's records before ``log_end`` belong nowhere, unsynced.

        Raises ``OSError``.
        """
        self.deleted[topic] = log_end
        self._file.write(self._watermarks())

    async def save(self, *, log_begin: int) -> None:
        """Make the watermarks durable. Raises ``OSError``.

        ``log_begin`` is where the log begins: deletions before it need not be remembered.
        """
        for topic in [topic for topic, end in self.deleted.items() if end <= log_begin]:
            del self.deleted[topic]
        await self._file.write_durably(self._watermarks())
