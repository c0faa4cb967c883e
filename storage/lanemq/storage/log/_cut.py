"""Cutting the log at its end after recovery, so that bytes behind it never come back as messages.

The reference leaves the bytes behind the cut in their file, where a later crash can make them
look like records again. Here they become zeros; if there is a whole record among them, which
is not what a crash of this store leaves, all of them are first copied to ``commitlog-cut``.
"""

from collections.abc import Iterator
from pathlib import Path

from lanemq.local import get_logger

from ..disk._files import File, Files
from ..disk._zeros import without_zeros
from ._records import MAGIC_AT, MAGICS, LogWalk
from ._segments import Segments, segment_name

LOGGER = get_logger(__name__)
CHUNK_BYTES = 1 << 20


def cut_log(
    segments: Segments,
    end: int,
    *,
    why: str,
    files: Files,
    save_to: Path,
    always_save: bool = False,
) -> None:
    """Zero all bytes from ``end`` on, and remove the files behind.

    ``why`` says what is wrong with the record at ``end``. Copies are made below ``save_to``
    where there are whole records, or always if ``always_save``.
    """
    rest = [
        (start, file) for start, file in segments.open_files() if start + segments.file_bytes > end
    ]
    data_bytes = sum(
        len(data) for start, file in rest for _, data in _data(start, file, end, segments)
    )
    if not data_bytes:
        return
    saved = ""
    has_record = _has_record(segments, rest, end)
    if has_record or always_save:
        directory = save_to / segment_name(end)
        among = "there are whole records among them, " if has_record else ""
        saved = f"; {among}all are saved in {directory}"
        for start, file in rest:
            path = directory / segment_name(start)
            if files.exists(path):
                files.remove(path)
            copy = files.create(path, segments.file_bytes)
            for position, data in _data(start, file, end, segments):
                copy.write(position - start, data)
            copy.close()
    where = segments.directory / segment_name(segments.start_of(end))
    LOGGER.warning(
        "the log ends at %d (byte %d of %s): %s. %d bytes behind it are given up%s",
        end,
        end - segments.start_of(end),
        where,
        why or "the last file is full",
        data_bytes,
        saved,
    )
    segments.erase(end)


def _data(start: int, file: File, end: int, segments: Segments) -> Iterator[tuple[int, bytes]]:
    """Iterate over the non-zero pieces of a file behind ``end``, with their log positions."""
    at = max(0, end - start)
    while at < segments.file_bytes and (at := file.next_data(at)) >= 0:
        data = file.read(at, min(CHUNK_BYTES, segments.file_bytes - at))
        used = without_zeros(data)
        if used:
            yield start + at, used
        at += len(data)


def _has_record(segments: Segments, rest: list[tuple[int, File]], end: int) -> bool:
    for start, file in rest:
        for position, data in _data(start, file, end, segments):
            for magic in MAGICS:
                at = data.find(magic)
                while at >= 0:
                    record = position + at - MAGIC_AT
                    if record >= end and any(
                        True for _ in LogWalk(segments, record, check_crc=True)
                    ):
                        return True
                    at = data.find(magic, at + 1)
    return False
