"""Reading and writing ``timerwheel`` and ``config/timercheck``."""

import zlib
from pathlib import Path
from typing import Final, NamedTuple, final

from ..disk._files import File, Files
from ..log._segments import is_segment_name
from ._layouts import (
    CHECK_BYTES,
    CHECK_FIELDS,
    MAGIC_OWN,
    OWN_CHECK_FIELDS,
    OWN_CHECKS_AT,
)
from ._open_slot import SlotProgress
from ._wheel import Wheel

READ_BYTES: Final = 1 << 20
CRC_BYTES: Final = 8


class Check(NamedTuple):
    """The durable state of the timers: see ``_layouts.CHECK``."""

    read_ms: int
    timer_log_end: int
    queue_offset: int
    progress: SlotProgress | None
    is_own: bool = True
    """True if lanemq wrote it: the timer log then has a unit for every message before
    ``queue_offset``."""


def _own_check(data: bytes, at: int) -> tuple[Check, int] | None:
    """Read lanemq's part of the checkpoint, and its number; None where it is not whole."""
    fields = OWN_CHECK_FIELDS.unpack_from(data, at)
    magic, read_ms, end, offset, counter, *done, crc = fields
    covered = data[at : at + OWN_CHECK_FIELDS.size - CRC_BYTES]
    if magic != MAGIC_OWN or crc != zlib.crc32(covered):
        return None
    return Check(read_ms, end, offset, SlotProgress(*done) if done[0] else None), counter


@final
class TimerFiles:
    """The two files in the directory ``root`` of a store."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._wheel_path = root / "timerwheel"
        self._check_path = root / "config" / "timercheck"
        self._wheel: File | None = None
        self._check: File | None = None
        self._names_dirty = False
        self._counter = 0
        self._state_version = 0
        self.progress: SlotProgress | None = None
        """The part of a slot that an earlier process delivered."""
        self.written: Check | None = None
        """The content of the file."""

    def load_check(self) -> Check | None:
        """Read the checkpoint; None where there is none."""
        data = (self._files.read_all(self._check_path) or b"")[:CHECK_BYTES]
        if not any(data):
            return None
        data = data.ljust(CHECK_BYTES, b"\0")
        read_ms, end, offset, master, version, _, counter = CHECK_FIELDS.unpack_from(data)
        self._state_version, self._counter = version, counter
        found = [own for own in (_own_check(data, at) for at in OWN_CHECKS_AT) if own is not None]
        own = max(found, key=lambda one: one[1], default=None)
        if own is not None:
            self.progress = own[0].progress
            # Apache's brokers count on; else they have not written since, or not all of it.
            if counter <= own[1]:
                self._counter = own[1]
                return own[0]
        if min(read_ms, end, offset, master) < 0 or not read_ms:
            return None  # the very first one was written only in part
        return Check(read_ms, end, offset, self.progress, is_own=False)

    def load_wheel(self, wheel: Wheel) -> bool:
        """Read the wheel; returns False where there is none of its size."""
        entries = {entry.name: entry for entry in self._files.entries(self._wheel_path.parent)}
        entry = entries.get(self._wheel_path.name)
        if entry is None or entry.size_bytes != wheel.size_bytes:
            return False
        self._wheel = self._files.open(self._wheel_path)
        position = self._wheel.next_data(0)
        while position >= 0:
            position -= position % READ_BYTES
            data = self._wheel.read(position, READ_BYTES)
            if not data:
                break
            wheel.load(data, position)
            position = self._wheel.next_data(position + len(data))
        return True

    def make_wheel(self, wheel: Wheel) -> None:
        """Make the file of an empty wheel. Raises ``OSError``."""
        if self._files.exists(self._wheel_path):  # the remains of an attempt without room
            self._files.remove(self._wheel_path)
        self._wheel = self._files.create(self._wheel_path, wheel.size_bytes)
        self._names_dirty = True

    def remove_all(self, timer_log: Path) -> None:
        """Remove the wheel, the checkpoint and the files of the timer log."""
        self.progress = None
        for path in (self._check_path, self._wheel_path):
            if self._files.exists(path):
                self._files.remove(path)
        for entry in self._files.entries(timer_log):
            if is_segment_name(entry.name):
                self._files.remove(timer_log / entry.name)

    async def write_wheel(self, pages: dict[int, bytes]) -> None:
        """Write pages and make them durable. Raises ``OSError``."""
        assert self._wheel is not None
        for position, page in pages.items():
            self._wheel.write(position, page)
        if pages:
            await self._wheel.sync()

    async def write_check(self, check: Check) -> None:
        """Write the checkpoint and make it durable. Raises ``OSError``."""
        if self._check is None:
            if self._files.exists(self._check_path):
                self._check = self._files.open(self._check_path)
            else:
                self._check = self._files.create(self._check_path, CHECK_BYTES)
                self._names_dirty = True
        self._counter += 1
        done = check.progress or (0, 0, 0)
        numbers = (check.read_ms, check.timer_log_end, check.queue_offset)
        own = OWN_CHECK_FIELDS.pack(MAGIC_OWN, *numbers, self._counter, *done, 0)[:-CRC_BYTES]
        at = OWN_CHECKS_AT[self._counter % len(OWN_CHECKS_AT)]
        self._check.write(at, own + zlib.crc32(own).to_bytes(CRC_BYTES, "big"))
        version = (self._state_version, check.read_ms, self._counter)
        self._check.write(0, CHECK_FIELDS.pack(*numbers, check.queue_offset, *version))
        await self._check.sync()
        if self._names_dirty:
            await self._files.sync_path(self._check_path.parent)
            await self._files.sync_path(self._wheel_path.parent)
            self._names_dirty = False
        self.written = check

    def close(self) -> None:
        """Close both files."""
        for file in (self._wheel, self._check):
            if file is not None:
                file.close()
