"""Archives of messages by topic and day, whose commits make each run atomic: files of Parquet with
commits beside them, or tables of Delta Lake or Iceberg.
"""

from ._commits import Commits
from ._open import is_archive, open_archive
from ._sink import ArchiveSink
from ._state import ARCHIVED, Archive, ArchivedQueue, Span, WrittenFile, parse_queue, queue_text

__all__ = [
    "ARCHIVED",
    "Archive",
    "ArchiveSink",
    "ArchivedQueue",
    "Commits",
    "Span",
    "WrittenFile",
    "is_archive",
    "open_archive",
    "parse_queue",
    "queue_text",
]
