"""Opening and closing a store."""

import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from lanemq.local import get_logger

from ._clock import system_clock_ms
from ._config import StoreConfig
from ._errors import (
    ConfigInvalid,
    RocksFault,
    StartRefused,
    StoreCorrupted,
    StoreError,
    StoreLocked,
    StoreUnopened,
    is_full,
)
from ._parts import Parts
from ._store import Store
from ._tables import check_tables
from .checkpoint._watermarks import WatermarkFile, watermark_path
from .disk._backups import remove_backups
from .disk._files import Files
from .disk._real_files import RealFiles
from .log._segments import is_segment_name

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from .queues.rocks._queue_rows import QueueRows

LOGGER = get_logger(__name__)
KV_START_S: Final = 3.0
"""Seconds that a start waits for the redo of keys; those that take longer open later."""


def move_aside_without_log(config: StoreConfig, *, files: Files, now_ms: int) -> None:
    """Move queues and index aside where there is no log, since they lead to nothing.

    The reference removes them.
    """
    if any(is_segment_name(entry.name) for entry in files.entries(config.commit_log_path)):
        return
    known = WatermarkFile(files, config.root).load()
    if known is not None and known.is_new:
        return  # there was no message yet, but a RocksDB may have been made
    for name in ("consumequeue", "index"):
        directory = config.root / name
        if files.entries(directory):
            target = directory.with_name(f"{name}.aside-{now_ms}")
            LOGGER.warning("there is no commit log: %s is moved to %s", directory, target)
            files.move(directory, target)
    for path in (config.root / "checkpoint", watermark_path(config.root)):
        if files.exists(path):
            files.remove(path)


def open_rows(config: StoreConfig, *, now_ms: int) -> "QueueRows":
    """Open the RocksDB of the queues; one that cannot be opened is moved aside and made again.

    Raises ``StoreLocked``, ``StoreCorrupted``, ``OSError``, and ``ConfigInvalid`` where the
    package for RocksDB is not installed.
    """
    try:
        from .queues.rocks._queue_rows import QueueRows
        from .rocks import QueueDatabase, is_present, move_aside
    except ImportError as error:
        raise ConfigInvalid(f"RocksDB needs what lanemq[server] installs: {error}") from error
    directory = config.root / "consumequeue"
    why = "there are tables of a RocksDB, but what belongs to them is not"
    if is_present(directory) or not any(directory.glob("*.sst")):
        try:
            return QueueRows(QueueDatabase(directory))
        except StoreCorrupted as error:
            why = str(error)
    target = move_aside(directory, now_ms)
    LOGGER.error("%s: its files are now in %s, and a new one is made", why, target)
    return QueueRows(QueueDatabase(directory))


async def _started(
    config: StoreConfig, files: Files, clock_ms: Callable[[], int]
) -> tuple[Parts, Store]:
    """Load the store, and after a crash redo what is missing; errors as ``open_store``.

    A start that fails leaves what the next one goes on with.
    """
    root, abort = config.root, config.root / "abort"
    check_tables(config, files)
    is_new = not files.exists(config.commit_log_path)
    files.make_directory(config.commit_log_path)
    files.make_directory(root / "consumequeue")
    clean = not files.exists(abort)
    if clean and is_new:
        LOGGER.info("making a new store in %s", root)
    else:
        LOGGER.info("opening %s after a %s", root, "clean stop" if clean else "crash")
    # Before recovery, which changes files: a crash in the middle of it is a crash.
    files.write_all(abort, str(os.getpid()).encode())
    await files.sync_path(abort)
    await files.sync_path(root)
    move_aside_without_log(config, files=files, now_ms=clock_ms())
    try:
        with ExitStack() as undo:
            rows = None
            if config.stage.has_rows:
                rows = open_rows(config, now_ms=clock_ms())
                undo.callback(rows.close)
            # The tables may be converted once this works: the lock is held.
            parts = Parts(config, files=files, clock_ms=clock_ms, rows=rows)
            undo.pop_all()  # the rows are among the parts now
            undo.callback(parts.close)
            store = Store(parts)
            parts.load(clean=clean)
            await parts.housekeeping.keep_recovery()
            if parts.kv is not None:
                with trio.move_on_after(KV_START_S):
                    await parts.kv.catch_up_at_start()
            undo.pop_all()
        if clean:
            remove_backups(files, root)
    except (StartRefused, StoreLocked, StoreCorrupted, ConfigInvalid):
        if clean:  # the store is as before the start
            files.remove(abort)
        raise
    return parts, store


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    """Name the store in errors, and in disk errors that do not say what cannot be used."""
    try:
        yield
    except StoreError as error:
        error.root = root
        raise
    except OSError as error:
        rows = root / "consumequeue"
        if isinstance(error, RocksFault) and error.filename == str(rows) and not is_full(error):
            raise StoreCorrupted(
                rows,
                f"{error.strerror}. `repair_store` moves the files of this database aside, and"
                " makes it again from the log",
                root=root,
            ) from error
        if error.filename is not None and not is_full(error):
            raise
        raise StoreUnopened(root, error) from error


@asynccontextmanager
async def open_store(
    config: StoreConfig,
    *,
    files: Files | None = None,
    clock_ms: Callable[[], int] = system_clock_ms,
) -> AsyncGenerator[Store, None]:
    """Open the store in ``config.root``, which may be new, and close it at the end.

    The lock is taken before anything is read. After a crash (the file ``abort`` is there) the
    log is redone from the checkpoint. At the end everything becomes durable, and ``abort`` goes
    if that worked.

    Raises ``StoreLocked``, ``StoreCorrupted``, ``StartRefused``, ``ConfigInvalid``,
    ``StoreUnopened`` and ``OSError``. ``files`` and ``clock_ms`` (Unix time in milliseconds) are
    for simulations.
    Source: RocketMQ 4.9.8, DefaultMessageStore.load, start and shutdown.
    """
    files = files if files is not None else RealFiles()
    root, abort = config.root, config.root / "abort"
    with _explained(root):
        files.make_directory(root)
        lock = files.lock(root / "lock", root)
    try:
        with _explained(root):
            parts, store = await _started(config, files, clock_ms)
        is_clean = False
        try:
            async with trio.open_nursery() as nursery:
                parts.housekeeping.start(nursery)
                try:
                    yield store
                finally:
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # The tasks handle their errors: what is alone in here came from the user's block.
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from group.exceptions[0].__cause__
            raise
        finally:
            with trio.CancelScope(shield=True):
                is_clean = await parts.housekeeping.close()
                parts.close()
                if is_clean:
                    files.remove(abort)
                    await files.sync_path(root)
    finally:
        lock.release()
