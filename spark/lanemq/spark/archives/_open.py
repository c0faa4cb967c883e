"""The form of an archive by its address: a directory with commits, or a table."""

from .._uris import DELTA, ICEBERG, absolute
from ._commits import Commits
from ._delta import DeltaArchive, is_delta
from ._iceberg import IcebergArchive
from ._state import Archive


def open_archive(target: str) -> Archive:
    """Return the archive at a path, a URI, or the address of a table, which may not exist yet.

    Raises ``SourceError``.
    """
    place = absolute(target)
    if place.startswith(ICEBERG):
        return IcebergArchive(place)
    if place.startswith(DELTA) or is_delta(place):
        return DeltaArchive(absolute(place.removeprefix(DELTA)))
    return Commits(place)


def is_archive(target: str) -> bool:
    """Return whether there is an archive. Raises ``SourceError``."""
    return open_archive(target).exists()
