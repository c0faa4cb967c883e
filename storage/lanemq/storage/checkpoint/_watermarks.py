"""Watermarks: the part of the log that each index has durably (``config/dispatchWatermark.json``).

A watermark is a position of the log: every record before it that belongs in the index is in it,
and will be after a loss of power. It may lag behind, never run ahead: data first, then the
watermark. So whatever another process did to the store meanwhile, a redo from the watermark
repairs it. Apache RocketMQ has no such file and leaves it alone.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger

from .._config import Stage
from ..disk._files import Files
from ..queues.files._bounds import QueueBounds
from ..queues.rocks._cover import RocksCover
from ._deletions import DeletionsFile
from ._watermark_text import text_of

LOGGER = get_logger(__name__)
FILE_NAME: Final = "dispatchWatermark.json"
VERSION: Final = 1
TURN_BYTES: Final = 4096
"""Length of a piece of text after which others have their turn."""


def watermark_path(root: Path) -> Path:
    """Return the path of the file in a store directory."""
    return root / "config" / FILE_NAME


@final
class Watermarks(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The content of the file. Positions count bytes of the log."""

    stage: Stage
    """The stage that wrote this."""
    checkpoint_ms: int
    """The later time in the matching checkpoint, of log and queues; a higher one is another
    process's."""
    files: int
    """The watermark of the queue files."""
    index: int
    """The watermark of the key index."""
    rocksdb: RocksCover | None = None
    """The part of the log in RocksDB; None as long as the store had none."""
    deleted: dict[str, int] = {}
    """Topic -> end of the log when the topic was deleted; its older records belong to no queue."""
    queues: str = ""
    """A digest of the queue files that were left; empty while they are in use."""
    bounds: QueueBounds = {}
    """Begin and end of each queue in files when all before ``files`` was in them."""
    log_begin: int | None = None
    """The log's begin at the last stop; None where that is not known."""
    serial: int = 0
    """Number of this version, for what is noted beside it; 0 in one of an older lanemq."""
    version: int = VERSION

    @property
    def is_new(self) -> bool:
        """True if the log was still empty."""
        return not (self.files or self.index or (self.rocksdb is not None and self.rocksdb.end))


def lost_log(known: Watermarks | None, log_begin: int) -> str:
    """Describe the begin of a log that is gone since our last clean stop; empty where none is.

    ``known`` are the watermarks of that stop, ``log_begin`` is where the log begins now.
    """
    if known is None or known.log_begin is None or known.log_begin >= log_begin:
        return ""
    return (
        f"the log began at {known.log_begin} when the store was closed, and begins at {log_begin}"
        " now: the files between are gone, and their messages with them"
    )


@final
class WatermarkFile:
    """The file of the watermarks. Where it is missing or unreadable, less is known."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self.path = watermark_path(root)
        self.deletions = DeletionsFile(files, self.path.parent)
        """The deletions since the watermarks were written, kept beside them."""

    def load(self) -> Watermarks | None:
        """Return the watermarks written last, with later deletions; None where they are not
        known."""
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
        return self._with_deletions(found)

    def _with_deletions(self, found: Watermarks) -> Watermarks:
        deleted, bounds = dict(found.deleted), dict(found.bounds)
        for topic, end in self.deletions.load(found.serial).items():
            if deleted.get(topic, -1) < end:
                deleted[topic] = end
                bounds.pop(topic, None)
        return msgspec.structs.replace(found, deleted=deleted, bounds=bounds)

    def write(self, watermarks: Watermarks) -> None:
        """Replace the file, unsynced. Raises ``OSError``; the old one is in place then."""
        self._files.write_all(self._temporary, b"".join(_text(watermarks)))
        self._files.move(self._temporary, self.path)

    async def write_durably(self, watermarks: Watermarks) -> None:
        """Replace the file, durably, a piece in each turn of the event loop. Raises ``OSError``."""
        pieces = []
        for piece in _text(watermarks):
            pieces.append(piece)
            if len(piece) >= TURN_BYTES:
                await trio.lowlevel.checkpoint()
        await self._write_pieces(pieces)
        await self._files.sync_path(self._temporary)
        self._files.move(self._temporary, self.path)
        await self._files.sync_path(self.path.parent)

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    async def _write_pieces(self, pieces: list[bytes]) -> None:
        if self._files.exists(self._temporary):
            self._files.remove(self._temporary)
        with closing(self._files.create(self._temporary, sum(map(len, pieces)))) as file:
            position = 0
            for piece in pieces:
                file.write(position, piece)
                position += len(piece)
                if len(piece) >= TURN_BYTES:
                    await trio.lowlevel.checkpoint()


def _text(watermarks: Watermarks) -> Iterator[bytes]:
    members = msgspec.to_builtins(msgspec.structs.replace(watermarks, bounds={}))
    del members["bounds"]
    return text_of(members, watermarks.bounds)


def note_queues(files: Files, root: Path, digest: str) -> None:
    """Note the queue files that the next start compares with those it finds; empty: none.

    For tools that change them while no broker uses the store: the bounds for a start after a kill
    are no longer known either. Raises ``OSError``.
    """
    file = WatermarkFile(files, root)
    known = file.load()
    if known is not None and (known.queues != digest or known.bounds):
        file.write(msgspec.structs.replace(known, queues=digest, bounds={}))


@final
class OpenWatermarks:
    """The watermarks of an open store; what changes here is written by ``save``."""

    def __init__(self, file: WatermarkFile, stage: Stage) -> None:
        self._file = file
        self._stage = stage
        self.files = 0
        self.index = 0
        self.rocksdb: RocksCover | None = None
        self.deleted: dict[str, int] = {}
        """Deleted topics, shared with the parts that dispatch the log again."""
        self.checkpoint_ms = 0
        self.queues = ""
        self.bounds: QueueBounds = {}
        self.log_begin: int | None = None
        self._serials = [0]
        """Number of the version that is in place; while that is not known, of the next one as
        well."""
        self._unsaved: dict[str, int] = {}
        """Deletions that are noted beside it."""

    def load(self) -> Watermarks | None:
        """Load the watermarks of an earlier run; None where they are not known."""
        known = self._file.load()
        if known is None:
            self._file.deletions.write({}, follows=[])  # numbers begin again
        else:
            self._serials = [known.serial]
            self._unsaved = self._file.deletions.load(known.serial)
            self.files, self.index, self.rocksdb = known.files, known.index, known.rocksdb
            self.deleted.update(known.deleted)
            self.checkpoint_ms = known.checkpoint_ms
            self.log_begin = known.log_begin
            self.bounds = known.bounds
            if self._stage.reads_rows:
                self.queues = known.queues  # they are never changed
        return known

    def _watermarks(self) -> Watermarks:
        return Watermarks(
            stage=self._stage,
            checkpoint_ms=self.checkpoint_ms,
            files=self.files,
            index=self.index,
            rocksdb=self.rocksdb,
            deleted=dict(self.deleted),
            serial=self._serials[-1],
            queues=self.queues,
            bounds=self.bounds,
            log_begin=self.log_begin,
        )

    def end_at(self, log_end: int) -> None:
        """Set the end of the log: messages put from now on were not deleted before."""
        for topic, end in self.deleted.items():
            self.deleted[topic] = min(end, log_end)

    def note_deleted(self, topic: str, log_end: int) -> None:
        """Remember that a topic's records before ``log_end`` belong to no queue, unsynced.

        Raises ``OSError``.
        """
        self.deleted[topic] = self._unsaved[topic] = log_end
        self.bounds.pop(topic, None)
        self._file.deletions.write(self._unsaved, follows=self._serials)

    async def save(self, *, log_begin: int) -> None:
        """Make the watermarks durable. Raises ``OSError``.

        ``log_begin`` is where the log begins: deletions before it need not be remembered.
        """
        for topic in [topic for topic, end in self.deleted.items() if end <= log_begin]:
            del self.deleted[topic]
        # Until the new version is known to be in place, what is noted belongs to either.
        self._serials = [self._serials[0], self._serials[0] + 1]
        saved = dict(self._unsaved)
        await self._file.write_durably(self._watermarks())
        self._serials = self._serials[-1:]
        self._unsaved = {
            topic: end for topic, end in self._unsaved.items() if saved.get(topic) != end
        }
        self._file.deletions.write(self._unsaved, follows=self._serials)
