"""The errors of tools, beside those of a store."""

from pathlib import Path
from typing import final

from ..._errors import StoreError


@final
class NotAStore(StoreError):  # noqa: N818 - a property of the directory
    """The directory is not a store, or lacks what was asked for; the message says what to do."""

    def __init__(self, root: Path, why: str) -> None:
        super().__init__(f"{root}: {why}")
        self.root = root


def no_directory(root: Path) -> NotAStore:
    """Return the error for a store's path that is not a directory."""
    if root.exists():
        return NotAStore(root, "it is a file; a store is a broker's directory, storePathRootDir")
    return NotAStore(root, "there is no such directory")
