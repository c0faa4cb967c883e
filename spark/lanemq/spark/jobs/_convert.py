"""The job ``convert``: topics, groups and offsets of stores to RocksDB, and back to JSON."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, final

from lanemq.storage import StoreError
from lanemq.storage.tools import export_in_place, import_in_place

from .._errors import SourceError
from ..store import local_directory
from ._tasks import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@final
@dataclass(frozen=True, slots=True)
class ConvertedTable:
    """A table where it is now."""

    name: str
    entries: int
    path: str


@final
@dataclass(frozen=True, slots=True)
class ConvertedStore:
    """The result for one store."""

    store: str
    tables: list[ConvertedTable]


def convert(
    spark: "SparkSession", stores: list[str], target: str, *, force: bool = False
) -> list[ConvertedStore]:
    """Convert the tables of stores at rest: ``target`` is ``rocksdb`` or ``json``.

    Each store is a task, on a machine that reaches it by its path. To RocksDB it is tried with a
    copy first; JSON files that are newer stay, unless ``force`` is given. Raises ``SourceError``.
    """
    work = [
        partial(_convert, store, Path(local_directory(store)), target, force=force)
        for store in stores
    ]
    return in_tasks(spark, work)


def _convert(store: str, root: Path, target: str, *, force: bool) -> ConvertedStore:
    try:
        if target == "rocksdb":
            tables = [
                ConvertedTable(one.name, one.entries, str(one.path))
                for one in import_in_place(root)
            ]
        else:
            _, written = export_in_place(root, overwrite=force)
            tables = [ConvertedTable(one.name, one.entries, str(path)) for one, path in written]
    except (StoreError, OSError) as error:
        raise SourceError(str(error)) from error
    return ConvertedStore(store, tables)
