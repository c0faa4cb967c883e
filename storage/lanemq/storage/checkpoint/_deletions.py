"""Deletions of topics since the watermarks were written (``config/deletedTopics.json``).

The file of the watermarks says where each queue begins and ends, and is as large as the store has
queues: a deletion is noted beside it, and joins it with the next write. The note names the
versions of the watermarks that it adds to, and means nothing beside any other: one that has it
already, or one of an older lanemq that did not know it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import msgspec

from lanemq.local import get_logger

from ..disk._files import Files

LOGGER = get_logger(__name__)
FILE_NAME: Final = "deletedTopics.json"


@final
class Deletions(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    follows: list[int]
    """Serial numbers of the watermarks that this adds to: while those are written again, two."""
    deleted: dict[str, int]
    """Topic -> end of the log when the topic was deleted."""


@final
class DeletionsFile:
    """The file of the deletions in the directory ``config``."""

    def __init__(self, files: Files, config: Path) -> None:
        self._files = files
        self._path = config / FILE_NAME

    def load(self, serial: int) -> dict[str, int]:
        """Return the deletions noted beside the watermarks ``serial``; none where they cannot be
        read."""
        data = self._files.read_all(self._path)
        if data is None:
            return {}
        try:
            found = msgspec.json.decode(data, type=Deletions)
        except msgspec.DecodeError as error:
            LOGGER.warning("%s is not used: %s", self._path, error)
            return {}
        return found.deleted if serial in found.follows else {}

    def write(self, deleted: Mapping[str, int], *, follows: list[int]) -> None:
        """Replace the file, unsynced, or remove it where nothing is to be noted.

        Raises ``OSError``; the old file is in place then.
        """
        if deleted:
            temporary = self._path.with_name(FILE_NAME + ".tmp")
            noted = Deletions(follows=follows, deleted=dict(deleted))
            self._files.write_all(temporary, msgspec.json.encode(noted))
            self._files.move(temporary, self._path)
        elif self._files.exists(self._path):
            self._files.remove(self._path)
