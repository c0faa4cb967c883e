"""Snapshots of a namespace as files: export, import."""

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click
import trio

from lanemq.local import create_temporary, print_line
from lanemq.wire.kv import (
    LOAD_ENTRIES_MAX,
    LoadedEntry,
    NamespaceStatus,
    OpType,
    Page,
    SnapshotHeader,
    SnapshotReader,
    SnapshotWriter,
)

from ..._tasks import gather, open_quiet_nursery
from .._store import KeyValueStore
from ..requests._errors import KvStateLost, NoNamespace
from ..requests._split import write_to_all
from ._command import Failed, Output, kv_command
from ._etcd import KEEP, SKIP
from ._sources import ETCD, open_source

CHUNK_BYTES: Final = 256 << 10
"""Bytes of a load: the broker answers nobody else while it applies one."""
LOADS_AT_ONCE: Final = 2
"""While the broker applies one the next is made, and under way."""
NUMBERS_BYTES: Final = 40


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
    if os.path.lexists(path) and not force:
        raise Failed(f"{path} is there already; --force replaces it")
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with create_temporary(temporary) as opened:
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

    Of several partitions one comes after the other, each of one moment. Entries under a lease are
    left out: they are there as long as their holder lives.
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
            if not one.lease  # it is there as long as its holder lives, and a copy has none
        ]
    )
    advance(len(page.entries))


@kv_command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Empty the namespace first, also one that was lost.")
@click.option(
    "--from",
    "of",
    type=click.Choice([ETCD]),
    help='FILE is what etcdctl get --prefix "" -w json has printed.',
)
@click.option(
    "--leased",
    type=click.Choice([SKIP, KEEP]),
    help="Leave out etcd's keys that belong to a lease, or take them over for good.",
)
async def import_command(
    store: KeyValueStore,
    output: Output,
    *,
    file: Path,
    replace: bool,
    of: str | None,
    leased: str | None,
) -> int:
    """Take the entries of a snapshot over, with their versions and times, through the log.

    The file is read to its end first: one that is damaged changes nothing. The namespace has to
    be empty, unless --replace empties it. It may have another number of partitions than the one
    of the file had: each entry goes to the partition of its key.
    """
    with open_source(file, of=of, leased=leased) as source:
        for remark in source.remarks:
            print_line(f"warning: {remark}", err=True)
        try:
            is_empty = (await sure_status(store)).entries == 0
        except KvStateLost:
            if not replace:
                raise
            is_empty = False
        if not is_empty and not replace:
            raise Failed(
                f"namespace {store.namespace} is not empty; --replace empties it before the import"
            )
        await write_to_all(store._calls, OpType.IMPORT)
        with progress_bar("importing", source.count, hidden=output.json) as advance:
            await load_all(store, source.blocks(), advance)
        await write_to_all(store._calls, OpType.IMPORTED)
    output.value({"entries": source.count, **source.facts})
    told = [f"{name.replace('_', ' ')} {value}" for name, value in source.facts.items()]
    output.line(", ".join([f"{source.count:,} entries imported", *told]).encode())
    return 0


async def sure_status(store: KeyValueStore) -> NamespaceStatus:
    """Return the status that the holders of a namespace answer; a missing namespace is created.

    A broker that does not have the namespace says nothing of its content.
    """
    try:
        return await store.status()
    except NoNamespace:
        await store.create()
    return await store.status()


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
    """Divide entries into loads of about ``CHUNK_BYTES``, and ``LOAD_ENTRIES_MAX`` at most."""
    chunk: list[LoadedEntry] = []
    size_bytes = 0
    for entry in entries:
        chunk.append(entry)
        size_bytes += len(entry.key) + len(entry.value) + NUMBERS_BYTES
        if size_bytes >= CHUNK_BYTES or len(chunk) >= LOAD_ENTRIES_MAX:
            yield chunk
            chunk, size_bytes = [], 0
    if chunk:
        yield chunk
