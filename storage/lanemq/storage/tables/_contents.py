"""The content of a table as its file has it: entries, version, other members.

Source: RocketMQ 4.9.8, ConfigManager.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import DataVersion

from .._errors import ConfigInvalid

DATA_VERSION: Final = "dataVersion"


class Contents(NamedTuple):
    """The content of a table, as JSON values."""

    entries: dict[str, Any]
    version: DataVersion | None
    """The version of the data; None where it was never written."""
    others: dict[str, Any]
    """The members beside the table itself."""


def parse_contents(members: dict[str, Any], member: str, path: Path) -> Contents:
    """Parse a JSON file whose table is in ``member``. Raises ``ConfigInvalid``."""
    others = dict(members)
    table = others.pop(member, None)
    version = others.pop(DATA_VERSION, None)
    table = {} if table is None else table
    if not isinstance(table, dict):
        raise ConfigInvalid(f"{path}, {member}: it is not an object")
    try:
        parsed = DataVersion.from_json(version) if version is not None else None
    except RemoteProtocolError as error:
        raise ConfigInvalid(f"{path}, {DATA_VERSION}: {error}") from error
    return Contents(table, parsed, others)
