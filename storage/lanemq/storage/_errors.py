"""What goes wrong in a store.

StoreError
 +-- StoreLocked        another process has the directory open
 +-- StoreCorrupted     a file is not what its name says; the message names it
 +-- StartRefused       to start like this would lose something; the message says what to do
 +-- StoreUnwritable    writes are refused for now; reads go on
 +-- MessageIllegal     this message can never be stored
 +-- ConfigInvalid      a setting, or a file under ``config``, makes no sense
"""

from pathlib import Path
from typing import final


class StoreError(Exception):
    """Base of all of them; never raised itself."""


@final
class StoreLocked(StoreError):  # noqa: N818 - a state of the store
    """Another process, or another store object of this one, holds the directory."""

    def __init__(self, root: Path, name: str = "lock") -> None:
        """``name`` is the lock's file in ``root``."""
        super().__init__(f"the store in {root} is in use: another process holds {root / name}")
        self.root = root


@final
class StoreCorrupted(StoreError):  # noqa: N818 - a state of the store
    """A file cannot be what the store's settings say. Nothing was changed."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


@final
class StartRefused(StoreError):  # noqa: N818 - a state of the store
    """A start with these settings would lose something. Nothing was changed.

    The message says what would be lost, and the ways on.
    """


@final
class StoreUnwritable(StoreError):  # noqa: N818 - a state of the store
    """Nothing was stored. Reads go on; ``reason`` says what has to change."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store takes no messages: {reason}")
        self.reason = reason


@final
class MessageIllegal(StoreError):  # noqa: N818 - a property of the message
    """The message breaks a limit of the format; a retry cannot help."""


@final
class ConfigInvalid(StoreError):  # noqa: N818 - a property of the file
    """A setting or a configuration file that cannot be used; the message names it."""
