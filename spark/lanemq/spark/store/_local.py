"""A store's small files on the local disk, for the libraries that read nothing else.

RocksDB and the readers of the tables want a directory. For a store elsewhere the files that they
need are fetched into a temporary one, in the process that reads them.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lanemq.storage import StoreError
from lanemq.storage.tools import find_stage, look_into

from .._errors import SourceError
from ._files import StoreFiles
from ._plan import log_of
from ._table import Query

CONSUME_QUEUE: Final = "consumequeue"
CONFIG: Final = "config"
KV: Final = "kv"
DEEP: Final = (CONFIG, KV)
SMALL: Final = ("checkpoint",)


@contextmanager
def local_store(root: str, *directories: str) -> Iterator[Path]:
    """Give a directory with files of a store: those of the directories, and of ``config`` and
    ``kv`` what is in their own directories, too.

    Errors of storage become ``SourceError``.
    """
    files = StoreFiles(root)
    try:
        if files.is_local:
            yield files.local_root
            return
        with tempfile.TemporaryDirectory(prefix="lanemq-spark-") as name:
            target = Path(name)
            (target / "commitlog").mkdir()
            for directory in directories:
                _fetch(files, directory, target, deep=directory in DEEP)
            for entry in files.entries():
                if entry.name in SMALL:
                    files.fetch(entry.name, target / entry.name)
            yield target
    except StoreError as error:
        raise SourceError(str(error)) from error


def _fetch(files: StoreFiles, directory: str, target: Path, *, deep: bool) -> None:
    (target / directory).mkdir(parents=True)
    for entry in files.entries(directory):
        path = f"{directory}/{entry.name}"
        if not entry.is_directory:
            files.fetch(path, target / path)
        elif deep:
            _fetch(files, path, target, deep=True)


def commit_log(query: Query, root: str) -> Path | None:
    """Return the directory of a log that lies elsewhere on the local disk."""
    if query.options.get("commitLog") is None:
        return None
    files = StoreFiles(log_of(query, root))
    return files.local_root if files.is_local else None


def reads_rocksdb(query: Query, root: str) -> bool:
    """Return whether rows come from RocksDB: by the option ``from``, or by the store's stage."""
    chosen = query.options.choice("from")
    if chosen != "auto":
        return chosen == "rocksdb"
    with local_store(root, CONFIG, CONSUME_QUEUE) as directory:
        store = look_into(directory, commit_log=commit_log(query, root), needs_log=False)
        return find_stage(store).stage.reads_rows
