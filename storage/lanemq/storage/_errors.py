"""The errors of a store.

StoreError
 +-- StoreLocked        another process has the directory open
 +-- StoreCorrupted     a file is not what its name says; the message names it
 +-- StartRefused       to start like this would lose something; the message says what to do
 +-- StoreUnopened      the disk does not let us open it now; another start may
 +-- StoreUnwritable    writes are refused for now; reads go on
 +-- MessageIllegal     this message can never be stored
 +-- ConfigInvalid      a setting, or a file under ``config``, makes no sense
"""

import errno
import os
from pathlib import Path
from typing import Final, final

from lanemq.wire import ShownError

QUEUES_DIRECTORY: Final = "consumequeue"


class StoreError(ShownError):
    """Base of all of them; never raised itself.

    Where a text says what may be done, calls of ``lanemq.storage.tools`` stand between backticks.
    """

    root: Path | None = None
    """The store, where it is known."""


@final
class StoreLocked(StoreError):  # noqa: N818 - a state of the store
    """Another process, or another store object of this one, holds the directory."""

    def __init__(self, root: Path, name: str = "lock", *, holder: int | None = None) -> None:
        """Name the locked store; ``name`` is the lock's file in ``root``, ``holder`` the process
        that has it, where that is known."""
        who = "another process" if holder is None else f"process {holder}"
        super().__init__(f"the store in {root} is in use: {who} holds {root / name}")
        self.root = root


@final
class StoreCorrupted(StoreError):  # noqa: N818 - a state of the store
    """A file contradicts the store's settings. Nothing was changed."""

    def __init__(self, path: Path, why: str, *, root: Path | None = None) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.root = root


@final
class RocksFault(OSError):  # noqa: N818 - may be a full disk as well
    """An error of RocksDB, for which its binding has no class of its own.

    ``filename`` is the directory of the database, and ``strerror`` names its files there, without
    the directory: peers are told ``strerror``.
    """

    def __str__(self) -> str:
        text = super().__str__()
        path = Path(self.filename) if self.filename else None
        if path is None or path.name != QUEUES_DIRECTORY or "Corruption" not in str(self.strerror):
            return text
        return (
            f"{text}: its messages are in the log: stop the broker and repair the store in "
            f"{path.parent}, which moves the files of this database aside, and makes it again"
        )


@final
class StartRefused(StoreError):  # noqa: N818 - a state of the store
    """A start with these settings would lose something. Nothing was changed.

    The message says what would be lost, and the ways on.
    """


@final
class StoreUnopened(StoreError):  # noqa: N818 - a state of the store
    """The disk refused something that a start needs. The next start goes on from there."""

    def __init__(self, root: Path, error: OSError) -> None:
        why = error.strerror or str(error)
        way_on = "; free some space, then start again" if is_full(error) else ""
        super().__init__(f"the store in {root} cannot be opened: {why}{way_on}")
        self.root = root


@final
class StoreUnwritable(StoreError):  # noqa: N818 - a state of the store
    """The message was not stored. Reads go on; ``reason`` says what has to change."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store takes no messages: {reason}")
        self.reason = reason


@final
class MessageIllegal(StoreError):  # noqa: N818 - a property of the message
    """The message breaks a limit of the format; a retry cannot help."""


@final
class ConfigInvalid(StoreError):  # noqa: N818 - a property of the file
    """A setting or a configuration file that cannot be used; the message names it."""


def disk_problem(error: OSError) -> str:
    """Return the text of a disk error for anyone: without the path, which the log has."""
    return error.strerror or (os.strerror(error.errno) if error.errno else "it failed")


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})


def is_full(error: OSError) -> bool:
    """Return whether the disk is full, or full for this user."""
    return error.errno in _FULL


def is_exhausted(error: OSError) -> bool:
    """Return whether the process has run out of file descriptors; the disk is fine then.

    The work was not even begun, and may be tried again.
    """
    return error.errno in _EXHAUSTED
