"""Snapshots of a namespace as files: export, import."""

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click
import trio

from lanemq.wire.kv import (
    LoadedEntry,
    Page,
    SnapshotHeader,
    SnapshotReader,
    SnapshotWriter,
)

from ..._tasks import gather, open_quiet_nursery
from .._store import KeyValueStore
from ..requests._errors import KvStateLost, NoNamespace
from ._command import Failed, Output, kv_command

CHUNK_BYTES: Final = 256 << 10
"""Bytes of a load: the broker answers nobody else while it applies one."""
LOADS_AT_ONCE: Final = 2
"""While the broker applies one the next is made, and under way."""
NUMBERS_BYTES: Final = 40
PRIVATE_MODE: Final = 0o600


@contextmanager
def progress_bar(what: str, total: int, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on the standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield lambda count: None
        return
    with Progress(console=console, transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda count: bars.advance(task, count)


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Write a file, which is there as a whole at the end of the block, or not at all."""
    if path.exists() and not force:
        raise Failed(f"{path} is there already; --force replaces it")
    temporary = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_MODE)
    try:
        with open(descriptor, "wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@kv_command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
async def export_command(store: KeyValueStore, output: Output, *, file: Path, force: bool) -> int:
    """Write a snapshot of the namespace to a file: all entries of one moment, with a checksum.

    Of several partitions one comes after the other, each of one moment.
    """
    parts = await store.statuses()
    entries = sum(one.entries for one in parts)
    with (
        new_file(file, force=force) as opened,
        progress_bar("exporting", entries, hidden=output.json) as advance,
    ):
        if len(parts) == 1:
            writer, header = await _write_one(store, opened, advance)
        else:
            writer, header = await _write_several(store, len(parts), file.parent, opened, advance)
        checksum = writer.finish()
    output.value({"entries": writer.count, "position": header.position, "checksum": checksum})
    output.line(
        f"{writer.count:,} entries at position {header.position}, checksum {checksum}".encode()
    )
    return 0


Written = tuple[SnapshotWriter, SnapshotHeader]


async def _write_one(
    store: KeyValueStore, opened: BinaryIO, advance: Callable[[int], None]
) -> Written:
    written: Written | None = None
    async with pages_of(store, 0) as pages:
        async for page in pages:
            if written is None:
                header = SnapshotHeader(
                    namespace=store.namespace, position=page.position, clock_ms=page.clock_ms
                )
                written = SnapshotWriter(opened.write, header), header
            _add(written[0], page, advance)
    assert written is not None, "there is a first page, or the error of it was raised"
    return written


async def _write_several(
    store: KeyValueStore,
    partitions: int,
    folder: Path,
    opened: BinaryIO,
    advance: Callable[[int], None],
) -> Written:
    """Write partition after partition: a broker keeps few moments at once, and not for long.

    The positions are known only after that, and the header comes first; so the entries wait in
    a file without a name.
    """
    positions: list[int] = []
    clock_ms = 0
    with tempfile.TemporaryFile(dir=folder) as waiting:
        empty = SnapshotHeader(namespace=store.namespace, position=0, clock_ms=0)
        first = SnapshotWriter(waiting.write, empty)
        for partition in range(partitions):
            async with pages_of(store, partition) as pages:
                async for page in pages:
                    if len(positions) == partition:
                        positions.append(page.position)
                    clock_ms = max(clock_ms, page.clock_ms)
                    _add(first, page, advance)
        first.finish()
        waiting.seek(0)
        header = SnapshotHeader(
            namespace=store.namespace,
            position=sum(positions),
            clock_ms=clock_ms,
            positions=positions,
        )
        writer = SnapshotWriter(opened.write, header)
        for block in SnapshotReader(waiting.read).blocks():
            writer.add(block)
    return writer, header


@asynccontextmanager
async def pages_of(
    store: KeyValueStore, partition: int
) -> AsyncIterator[trio.MemoryReceiveChannel[Page]]:
    """Open the pages of a partition at one moment; each is fetched while the last is written."""
    ahead, pages = trio.open_memory_channel[Page](1)
    async with open_quiet_nursery() as nursery:
        nursery.start_soon(_read_pages, store, partition, ahead)
        yield pages


async def _read_pages(
    store: KeyValueStore, partition: int, ahead: trio.MemorySendChannel[Page]
) -> None:
    cursor, snapshot = None, "new"
    async with ahead:
        while True:
            page = await store.prefix(cursor=cursor, snapshot=snapshot, partition=partition)
            try:
                ahead.send_nowait(page)  # ``send`` would let it be written before the next is asked
            except trio.WouldBlock:
                await ahead.send(page)
            if page.cursor is None or page.snapshot is None:
                return
            cursor, snapshot = page.cursor, page.snapshot


def _add(writer: SnapshotWriter, page: Page, advance: Callable[[int], None]) -> None:
    writer.add(
        [
            LoadedEntry(
                one.key,
                one.value,
                one.version,
                one.create_time_ms,
                one.update_time_ms,
                one.expires_ms,
            )
            for one in page.entries
        ]
    )
    advance(len(page.entries))


@kv_command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Empty the namespace first, also one that was lost.")
async def import_command(store: KeyValueStore, output: Output, *, file: Path, replace: bool) -> int:
    """Take the entries of a snapshot over, with their versions and times, through the log.

    The file is read to its end first: one that is damaged changes nothing. The namespace has to
    be empty, unless --replace empties it. It may have another number of partitions than the one
    of the file had: each entry goes to the partition of its key.
    """
    with file.open("rb") as opened:
        reader = SnapshotReader(opened.read)
        count = sum(map(len, reader.blocks()))
        try:
            is_empty = (await store.status()).entries == 0
        except (NoNamespace, KvStateLost) as error:
            if isinstance(error, KvStateLost) and not replace:
                raise
            is_empty = isinstance(error, NoNamespace)
        if not is_empty and not replace:
            raise Failed(
                f"namespace {store.namespace} is not empty; --replace empties it before the import"
            )
        if not is_empty:
            await store.clear()
        opened.seek(0)
        again = SnapshotReader(opened.read)
        with progress_bar("importing", count, hidden=output.json) as advance:
            await load_all(store, again.blocks(), advance)
    output.value({"entries": count, "checksum": reader.checksum})
    output.line(f"{count:,} entries imported, checksum {reader.checksum}".encode())
    return 0


async def load_all(
    store: KeyValueStore, blocks: Iterator[list[LoadedEntry]], advance: Callable[[int], None]
) -> None:
    """Load the entries of blocks, with ``LOADS_AT_ONCE`` loads under way."""
    rest = (chunk for block in blocks for chunk in chunks(block))

    async def load() -> None:
        for chunk in rest:
            await store.load(chunk)
            advance(len(chunk))

    await gather([load] * LOADS_AT_ONCE)


def chunks(entries: list[LoadedEntry]) -> Iterator[list[LoadedEntry]]:
    """Divide entries into loads of about ``CHUNK_BYTES``."""
    chunk: list[LoadedEntry] = []
    size_bytes = 0
    for entry in entries:
        chunk.append(entry)
        size_bytes += len(entry.key) + len(entry.value) + NUMBERS_BYTES
        if size_bytes >= CHUNK_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
    if chunk:
        yield chunk
