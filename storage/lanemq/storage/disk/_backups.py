"""Backups of conversions, kept until a broker has started on the result.

A conversion keeps it in ``converted-TIME``. The next start that finds the store closed cleanly
and comes up removes it; after a crash it stays.
"""

import re
from pathlib import Path
from typing import Final

from lanemq.local import get_logger

from ._files import Files

LOGGER = get_logger(__name__)
KEPT: Final = "converted-"
CONVERT_TEMPORARY: Final = "convert.tmp"
"""The directory in which a conversion builds, removed at its end."""
NAME: Final = re.compile(rf"{KEPT}\d{{8}}T\d{{6}}(-\d+)?|{re.escape(CONVERT_TEMPORARY)}")


def remove_backups(files: Files, root: Path) -> None:
    """Remove the backups of conversions. An error is only logged: it costs nothing but space."""
    for entry in files.entries(root):
        if entry.is_directory and NAME.fullmatch(entry.name):
            path = root / entry.name
            LOGGER.info("%s is removed: the store came up with what replaced it", path)
            try:
                _remove_all(files, path)
            except OSError as error:
                LOGGER.warning("%s could not be removed: %s", path, error)


def _remove_all(files: Files, directory: Path) -> None:
    for entry in files.entries(directory):
        path = directory / entry.name
        if entry.is_directory:
            _remove_all(files, path)
        else:
            files.remove(path)
    files.remove(directory)
