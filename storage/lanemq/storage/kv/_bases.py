"""Bases: the rows of partitions as they were at one record, as files of the store.

A partition that came from another broker is not made of the log that is here alone: what went
before is in the log of that broker. Its base is what it came with, and with the log from that
record on the state can be made again, whatever becomes of the rows in the database, and of the
other broker.

A file is eight bytes that say what it is, and then blocks: a number of bytes (4, big-endian), a
BLAKE2b of 16 bytes over them, which counts the blocks, and the bytes. Blocks are rows as msgpack,
and a last one that says what the file is of; behind that is its number of bytes once more, so that
it can be read alone. A file is replaced as a whole.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Final, final

import msgspec

from lanemq.local import get_logger

from .._errors import StoreCorrupted
from ..disk._files import File, Files
from .engines._rows import META, Meta, decode_meta

LOGGER: Final = get_logger(__name__)
BASES_DIRECTORY: Final = "bases"
SUFFIX: Final = ".base"
TEMPORARY: Final = ".base.tmp-"
MAGIC: Final = b"lanekvb\x01"
SIZE_BYTES: Final = 4
SUM_BYTES: Final = 16
BLOCK_MAX: Final = 64 << 20
"""Bytes of a block: a page of rows is a MiB and a row."""
Rows = list[tuple[bytes, bytes]]


@final
class Base(msgspec.Struct, frozen=True, array_like=True):
    """The description of a base, at the end of its file."""

    name: str
    """The name of the partition."""
    position: int
    """The first record that is not in it."""
    partitions: int
    """Number of partitions of the namespace."""
    identity: str
    """The identity of the namespace."""
    pages: int
    """Number of blocks of rows."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_ROWS: Final = msgspec.msgpack.Decoder(Rows)
_BASE: Final = msgspec.msgpack.Decoder(Base)


@final
class BaseWriter:
    """A base that is being written, beside the one that is there."""

    def __init__(self, files: Files, path: Path, name: str) -> None:
        """Begin the file. Raises ``OSError``."""
        self._files = files
        self._name = name
        self.path = path
        self._file: File = files.create(path, 0)
        self._end = 0
        self._pages = 0
        self._meta: Meta | None = None
        self._append(MAGIC)

    def put(self, rows: Rows) -> None:
        """Write a page of rows. Raises ``OSError``."""
        for key, row in rows:
            if key == META:
                with suppress(msgspec.MsgspecError):  # who takes the rows over says so
                    self._meta = decode_meta(row)
        if rows:
            self._block(_ENCODER.encode(rows))
            self._pages += 1

    async def finish(self) -> Base:
        """Return once the file is durable. Raises ``OSError``."""
        meta = self._meta or Meta()
        base = Base(self._name, meta.next, meta.partitions, meta.identity, self._pages)
        data = _ENCODER.encode(base)
        self._block(data)
        self._append(_size(data))
        await self._file.sync()
        return base

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _block(self, data: bytes) -> None:
        self._append(_size(data) + _sum(self._pages, data) + data)

    def _append(self, data: bytes) -> None:
        self._file.write(self._end, data)
        self._end += len(data)


@final
class Bases:
    """The bases of one store, in ``directory``, which need not be there."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._numbers = count()
        self.known: dict[str, Base] = {}
        """Name of the partition -> its base, as far as the end of the file says."""

    def load(self) -> None:
        """Look what is there; what a crash has left of one is removed. Raises ``OSError``."""
        for entry in self._files.entries(self._directory):
            path = self._directory / entry.name
            if TEMPORARY in entry.name:
                self._files.remove(path)
            elif entry.name.endswith(SUFFIX):
                try:
                    base = read_base(self._files, path, entry.size_bytes)
                except StoreCorrupted as error:
                    LOGGER.error("%s; it is not used", error)
                else:
                    self.known[base.name] = base

    @asynccontextmanager
    async def writing(self, name: str) -> AsyncIterator[BaseWriter]:
        """Write a base within the block, and keep it with ``keep``. Raises ``OSError``."""
        if not self._files.exists(self._directory):
            self._files.make_directory(self._directory)
            await self._files.sync_path(self._directory.parent)
        path = self._directory / f"{name}{TEMPORARY}{next(self._numbers)}"
        with suppress(FileNotFoundError):
            self._files.remove(path)
        writer = BaseWriter(self._files, path, name)
        try:
            yield writer
        finally:
            writer.close()
            if self._files.exists(path):
                self._files.remove(path)

    async def keep(self, writer: BaseWriter, base: Base) -> None:
        """Put a finished file where it belongs, at once; returns when its name is durable.

        Raises ``OSError``.
        """
        self._files.move(writer.path, self._path(base.name))
        self.known[base.name] = base
        await self._files.sync_path(self._directory)

    def pages(self, name: str) -> Iterator[Rows]:
        """Iterate over the rows of a base, page by page. Raises ``StoreCorrupted``."""
        path = self._path(name)
        sizes = {entry.name: entry.size_bytes for entry in self._files.entries(path.parent)}
        return base_pages(self._files, path, sizes.get(path.name, 0))

    def distrust(self, name: str, why: Exception) -> None:
        """Use a base no more, which is damaged; the next one replaces it."""
        LOGGER.error("the base of partition %s is damaged, and not used: %s", name, why)
        self.known.pop(name, None)

    async def remove(self, name: str) -> None:
        """Remove the base of a partition, if there is one. Raises ``OSError``."""
        self.known.pop(name, None)
        if self._files.exists(self._path(name)):
            self._files.remove(self._path(name))
            await self._files.sync_path(self._directory)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"


def read_base(files: Files, path: Path, size_bytes: int) -> Base:
    """Read what a file says of itself at its end. Raises ``StoreCorrupted``."""
    file = files.open(path)
    try:
        tail = size_bytes - SIZE_BYTES
        size = int.from_bytes(file.read(max(tail, 0), SIZE_BYTES), "big")
        begin = tail - size
        if begin < len(MAGIC) + SIZE_BYTES + SUM_BYTES or size > BLOCK_MAX:
            raise StoreCorrupted(path, "it has no end")
        data = file.read(begin, size)
        base = _BASE.decode(data)
        head = file.read(begin - SIZE_BYTES - SUM_BYTES, SIZE_BYTES + SUM_BYTES)
        if head != _size(data) + _sum(base.pages, data):
            raise StoreCorrupted(path, "the checksum of its end does not match")
        if file.read(0, len(MAGIC)) != MAGIC or path.name != f"{base.name}{SUFFIX}":
            raise StoreCorrupted(path, "it is not a base of that partition")
    except (OSError, OverflowError, ValueError, msgspec.MsgspecError) as error:
        raise StoreCorrupted(path, f"its end cannot be read: {error}") from error
    finally:
        file.close()
    return base


def base_pages(files: Files, path: Path, size_bytes: int) -> Iterator[Rows]:
    """Iterate over the pages of rows in a file. Raises ``StoreCorrupted``."""
    base = read_base(files, path, size_bytes)
    file = files.open(path)
    try:
        at = len(MAGIC)
        for number in range(base.pages):
            head = file.read(at, SIZE_BYTES + SUM_BYTES)
            size = int.from_bytes(head[:SIZE_BYTES], "big")
            at += len(head)
            data = file.read(at, size) if at + size <= size_bytes else b""
            at += size
            if _sum(number, data) != head[SIZE_BYTES:]:
                raise StoreCorrupted(path, f"the checksum of its page {number} does not match")
            yield _ROWS.decode(data)
        if at + SIZE_BYTES + SUM_BYTES + len(_ENCODER.encode(base)) + SIZE_BYTES != size_bytes:
            raise StoreCorrupted(path, "there is more in it than its pages")
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise StoreCorrupted(path, f"it cannot be read: {error}") from error
    finally:
        file.close()


def _size(data: bytes) -> bytes:
    return len(data).to_bytes(SIZE_BYTES, "big")


def _sum(number: int, data: bytes) -> bytes:
    return blake2b(data, digest_size=SUM_BYTES, person=number.to_bytes(8, "big")).digest()
