"""The end of a queue in files: behind the last of the valid units (position >= 0, size > 0)."""

from typing import Final

from ..._layouts import BLANK_SIZE, UNIT_BYTES, Unit, iter_units, unpack_unit
from ..._search import first_offset
from ...log._segments import Segments

CHUNK_UNITS: Final = 4096
RECOVERED_FILES: Final = 3


def find_end(segments: Segments, redo_position: int | None) -> int:
    """Return the offset behind the last unit that counts.

    After a clean stop (None) they lie in one piece, so that the end can be searched by halves.
    After a crash, units of messages behind ``redo_position`` do not count, nor does what is not in
    the order of the log.
    """
    starts, per_file = segments.starts, segments.file_bytes // UNIT_BYTES
    first = len(starts) - RECOVERED_FILES
    if redo_position is not None:
        first = _newest_sound_file(segments, redo_position)
    end, log_end = 0, -1
    for start in starts[max(0, first) :]:
        unit = start // UNIT_BYTES
        if redo_position is None:
            valid = _valid_units(segments, unit, per_file)
        else:
            valid, log_end = _sound_units(segments, unit, redo_position, log_end)
        end = unit + valid
        if valid < per_file:
            break
    return end


def _unit(segments: Segments, offset: int) -> Unit:
    return Unit(*unpack_unit(segments.read(offset * UNIT_BYTES, UNIT_BYTES), 0))


def _valid_units(segments: Segments, first: int, count: int) -> int:
    def is_invalid(offset: int) -> bool:
        unit = _unit(segments, offset)
        return unit.log_position < 0 or unit.size_bytes <= 0

    return first_offset(first, first + count, is_invalid) - first


def _newest_sound_file(segments: Segments, redo_position: int) -> int:
    """Return the number of the newest file before which all units are of messages before the
    redo; the first one behind a missing file has none before it that would tell."""
    starts = segments.starts
    for number in range(len(starts) - 1, 0, -1):
        if not segments.has(starts[number] - UNIT_BYTES):
            continue
        before = _unit(segments, starts[number] // UNIT_BYTES - 1)
        unit = _unit(segments, starts[number] // UNIT_BYTES)
        if (
            before.size_bytes > 0
            and unit.size_bytes > 0
            and before.log_position <= unit.log_position < redo_position
        ):
            return number
    return 0


def _sound_units(
    segments: Segments, first: int, redo_position: int, log_end: int
) -> tuple[int, int]:
    """Count the sound units of a file; returns the end of the last one's message, too.

    ``log_end`` is that of the file before.
    """
    seen, count = 0, segments.file_bytes // UNIT_BYTES
    while seen < count:
        data = segments.read(
            (first + seen) * UNIT_BYTES, min(CHUNK_UNITS, count - seen) * UNIT_BYTES
        )
        for log_position, size_bytes, _ in iter_units(data):
            if log_position < 0 or size_bytes <= 0 or log_position >= redo_position:
                return seen, log_end
            if size_bytes != BLANK_SIZE:
                if log_position < log_end:
                    return seen, log_end
                log_end = log_position + size_bytes
            seen += 1
    return seen, log_end
