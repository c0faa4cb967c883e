"""The two kinds of store directories: with the store of one broker, and with those of a fleet.

A start with the other kind's options would make a new store beside those that are there, and
whatever is in them would seem to be gone.
"""

import re
from pathlib import Path
from typing import Final

from lanemq.local import own_directory

from .._settings import ConfigError

OTHER_DATA: Final = "--data DIR, or storePathRootDir in the broker's file, takes another directory"
_OF_FLEET: Final = re.compile(r"broker-([1-9][0-9]*)")
_PARTS: Final = ("commitlog", "consumequeue")
"""Directories of a store, of which the first may be elsewhere."""


def fleet_store(root: Path, number: int) -> Path:
    """Return the store directory of a broker of a fleet; numbers begin with 1."""
    return root / f"broker-{number}"


def refuse_fleet_stores(root: Path, *, keeps: str) -> None:
    """Raise ``ConfigError`` if ``root`` has stores of a fleet and none of its own.

    ``keeps`` says which options go on with them, with ``{count}`` and ``{first}`` for the number
    of brokers and the first store.
    """
    numbers = _fleet_numbers(root)
    if numbers and not _is_store(root):
        names = ", ".join(f"broker-{number}" for number in numbers)
        way_on = keeps.format(count=numbers[-1], first=fleet_store(root, numbers[0]))
        raise ConfigError(
            f"{root} has no store of its own, but those of a fleet ({names}): {way_on}; "
            f"{OTHER_DATA}"
        )


def claim_default_store(root: Path, *, is_given: bool) -> None:
    """Make and check the store directory that a start without ``--data`` takes.

    Its name is known to everybody, so the current directory may have one that another user put
    there. Raises ``NotOwnDirectory`` and ``OSError``.
    """
    from ..broker.settings._store_settings import DEFAULT_STORE  # a command that starts a broker

    if root == DEFAULT_STORE and not is_given:
        own_directory(root)


def refuse_lone_store(root: Path, count: int) -> None:
    """Raise ``ConfigError`` if ``root`` has the store of one broker and none of a fleet of
    ``count``."""
    if _is_store(root) and not _fleet_numbers(root):
        raise ConfigError(
            f"{root} has the store of one broker, and none of a fleet (broker-1 and so on): "
            f"leave --brokers {count} out to go on with it; {OTHER_DATA}"
        )


def _is_store(directory: Path) -> bool:
    return any((directory / part).is_dir() for part in _PARTS)


def _fleet_numbers(root: Path) -> list[int]:
    """Return the numbers of the brokers that have a store in ``root``, in order."""
    try:
        found = [_OF_FLEET.fullmatch(entry.name) for entry in root.iterdir()]
    except OSError:
        return []  # not there, or not to be read: the start says so itself
    return sorted(int(name[1]) for name in found if name and _is_store(root / name[0]))
