"""The job ``build``: the queues of a store in RocksDB, made of its log."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, final

from lanemq.storage import StoreError
from lanemq.storage.bulk import BuiltTable, TablesPlan, convert_to_rocksdb

from .._errors import SourceError
from ..store import TablePart, build_table, local_directory, table_parts
from ._tasks import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@final
@dataclass(frozen=True, slots=True)
class Built:
    """The result of the job ``build``."""

    store: str
    units: int
    queues: int
    tables: int
    """Sorted tables that tasks made."""
    log_begin: int
    log_end: int
    unplaced: int
    """Messages of the log that have no place, for their queue goes on over it."""
    damaged: list[str]
    """Messages that have no place, for the offset in their record is damaged; each as text."""
    kept: str | None
    """The directory of what was replaced, until lanemq has started on the result."""
    seconds: float


def build(spark: "SparkSession", store: str, *, part_bytes: int | None = None) -> Built:
    """Make the queues of a store at rest in RocksDB from its log, whatever it has of them.

    Tasks make sorted tables of parts of the log, in the store's directory, which every machine
    has to reach by the same path. They are taken in beside the store; a part in which a queue
    does not go on as its offsets say is read once more here, and their neighbours judge them. The
    result is compared with the log and with what can be read now, and then put in place. Raises
    ``SourceError``; the store is as it was then.
    """
    root = local_directory(store)
    count = 0

    def make(plan: TablesPlan) -> Iterator[BuiltTable]:
        nonlocal count
        parts = (
            table_parts(plan) if part_bytes is None else table_parts(plan, part_bytes=part_bytes)
        )
        count = len(parts)
        if not parts and plan.begin < plan.end:
            raise SourceError(f"{store}: its log has no file between {plan.begin} and {plan.end}")
        yield from in_tasks(spark, [partial(_build, part) for part in parts])

    try:
        done = convert_to_rocksdb(Path(root), from_log=True, tables=make)
    except (StoreError, OSError) as error:
        raise SourceError(str(error)) from error
    return Built(
        store,
        done.units,
        done.queues,
        count,
        done.log_begin,
        done.log_end,
        sum(loss.count for loss in done.unplaced),
        list(map(str, done.damaged)),
        None if done.kept is None else str(done.kept),
        round(done.seconds, 3),
    )


def _build(part: TablePart) -> BuiltTable:
    if not part.plan.directory.is_dir():
        raise SourceError(
            f"{part.plan.directory} is not there on this machine: every machine of the cluster has"
            " to reach the store by the same path"
        )
    return build_table(part)
