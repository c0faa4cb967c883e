"""The settings that tools take from the broker's own configuration file, where it is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from lanemq.wire import RemoteProtocolError, decode_properties_text

from ..._config import parse_delay_levels
from ..._errors import ConfigInvalid
from ..._layouts import UNIT_BYTES
from ._index_sizes import DEFAULT, IndexSizes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings, None where not given: then the store itself shows them, or Apache's default
    holds."""

    commit_log: Path | None = None
    """Directory of the log [storePathCommitLog]."""
    queue_file_bytes: int | None = None
    """Bytes of a queue file, whole units [mappedFileSizeConsumeQueue]."""
    delays_ms: tuple[int, ...] | None = None
    """Delays in milliseconds of levels 1, 2, ... [messageDelayLevel]."""
    index_sizes: IndexSizes | None = None
    """[maxHashSlotNum, maxIndexNum]"""
    multi_dispatch: bool | None = None
    """True if messages go to light queues [enableLmq with enableMultiDispatch]."""
    has_index: bool | None = None
    """True if messages have keys in an index [messageIndexEnable]."""


NO_SETTINGS: Final = BrokerSettings()


def read_properties(path: Path) -> dict[str, str]:
    """Read a properties file, whatever its keys are. Raises ``ConfigInvalid``, and ``OSError``."""
    try:
        return decode_properties_text(path.read_bytes())
    except RemoteProtocolError as error:
        raise ConfigInvalid(f"{path}: {error}") from error


def read_settings(
    path: Path, *, read: Callable[[Path], Mapping[str, str]] = read_properties
) -> BrokerSettings:
    """Read a broker's configuration file, Apache's or lanemq's.

    A setting that it does not name has the value a broker takes then, but for sizes of files that
    are there, which tell themselves. ``read`` returns keys and values of a file; that of the broker
    refuses what a start refuses. Raises ``ConfigInvalid``, and ``OSError``.
    """
    values = {key: value.strip() for key, value in read(path).items()}
    levels = values.get("messageDelayLevel")
    slots = _number(path, values, "maxHashSlotNum")
    entries = _number(path, values, "maxIndexNum")
    sizes = None
    if slots is not None or entries is not None:
        sizes = IndexSizes(slots or DEFAULT.slots, entries or DEFAULT.entries)
    queue_bytes = _number(path, values, "mappedFileSizeConsumeQueue")
    if queue_bytes is not None:
        queue_bytes = -(-queue_bytes // UNIT_BYTES) * UNIT_BYTES
    log = values.get("storePathCommitLog")
    has_index = values.get("messageIndexEnable")
    light = ("enableLmq", "enableMultiDispatch")
    return BrokerSettings(
        commit_log=Path(log) if log else None,
        queue_file_bytes=queue_bytes,
        delays_ms=_delays(path, levels) if levels is not None else None,
        index_sizes=sizes,
        multi_dispatch=all(values.get(name, "").lower() == "true" for name in light),
        has_index=has_index.lower() == "true" if has_index is not None else None,
    )


def _delays(path: Path, levels: str) -> tuple[int, ...]:
    try:
        return parse_delay_levels(levels)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error}") from error


def _number(path: Path, values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise ConfigInvalid(f"{path}: {name} is {text!r}, which is not a number above 0")
    return int(text)
