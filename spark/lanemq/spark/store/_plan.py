"""Parts of a log for tasks: ranges within one file, however its records lie."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import Damage, DamageKind

from .._errors import SourceError
from .._uris import below, shown
from ..records import LogicalPlaces
from ._files import StoreFiles
from ._log import LogFile, Piece, find_pieces
from ._table import Query

COMMIT_LOG: Final = "commitlog"
SPLIT_BYTES: Final = 256 << 20
"""Each task costs Spark a tenth of a second, in which a core reads a hundred megabytes."""


@final
@dataclass(frozen=True)
class LogPart(InputPartition):
    """The records that begin in ``begin`` to ``end`` of one file of a log."""

    root: str
    log: str
    """The directory of the log, as a path or URI."""
    piece: Piece
    begin: int
    end: int
    places: LogicalPlaces | None = None
    """The logical queues at the store's broker, where a query asks for them."""

    def open(self) -> LogFile:
        """Open the file. Raises ``OSError``."""
        return LogFile(StoreFiles(self.log), self.piece.name, self.piece)


def log_of(query: Query, root: str) -> str:
    """Return the directory of a store's log."""
    return query.options.get("commitLog") or below(root, COMMIT_LOG)


def log_parts(query: Query) -> list[LogPart]:
    """Return the parts of all logs. Raises ``SourceError`` where a directory is not a store."""
    split = query.options.number("splitBytes", least=1 << 16) or SPLIT_BYTES
    parts: list[LogPart] = []
    for root in query.roots:
        log = log_of(query, root)
        files = StoreFiles(log)
        if not files.is_directory():
            raise SourceError(
                f"{shown(root)} is not a store: it has no {COMMIT_LOG}. The directory to give is a"
                " broker's storePathRootDir; the option commitLog names a log that lies elsewhere"
            )
        for piece in find_pieces(files, ""):
            parts += [LogPart(root, log, piece, *span) for span in _spans(piece, split)]
    return parts


def _spans(piece: Piece, split_bytes: int) -> Iterator[tuple[int, int]]:
    for begin in range(piece.start, piece.end, split_bytes):
        yield begin, min(begin + split_bytes, piece.end)


def missing_files(pieces: list[Piece]) -> list[Damage]:
    """Return the gaps between the files of a log."""
    return [
        Damage(DamageKind.GAP, before.end, after.start, "no file begins here")
        for before, after in pairwise(pieces)
        if before.end < after.start
    ]
