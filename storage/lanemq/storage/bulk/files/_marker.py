"""The crash marker, which makes a store look crashed while its queue files are written.

A broker that opens it after the conversion was killed finds the file ``abort`` and a
checkpoint that vouches for no unit, and so makes all queue files again from the log, as any broker
does after a crash. The conversion notes in ``abort`` how to put things back.
Source of what a broker does: RocketMQ 4.9.8, CommitLog.recoverAbnormally.
"""

import os
from pathlib import Path
from typing import Final, final

import msgspec

from lanemq.local import replace_file, sync_path

from ..._layouts import CHECKPOINT_BYTES

QUEUE_TIME: Final = slice(8, 16)


class _Note(msgspec.Struct, rename="camel"):
    """The content of ``abort``; a broker writes its process id there."""

    conversion: str
    was_clean: bool
    abort: str
    """The content of the file before, if the store was not clean."""
    queue_time: str
    """The queues' time in the checkpoint, in hexadecimal; empty where there was no file."""


@final
class CrashMarker:
    """The marker: ``begin`` before the first change, ``end`` when all is durable. Raises
    ``OSError``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._abort = root / "abort"
        self._checkpoint = root / "checkpoint"
        found = self._found()
        self.is_ours = found is not None
        """True if a conversion was killed in the middle, and no broker has run since."""
        self._note = found or self._new()

    def _found(self) -> _Note | None:
        """Return the note of a killed conversion, unless a broker has run since."""
        try:
            return msgspec.json.decode(self._abort.read_bytes(), type=_Note)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _new(self) -> _Note:
        is_clean = not self._abort.exists()
        return _Note(
            conversion="to files",
            was_clean=is_clean,
            abort="" if is_clean else self._abort.read_text(),
            queue_time=self._checkpoint_data()[QUEUE_TIME].hex(),
        )

    def _checkpoint_data(self) -> bytes:
        try:
            return self._checkpoint.read_bytes()[:CHECKPOINT_BYTES]
        except FileNotFoundError:
            return b""

    @property
    def was_clean(self) -> bool:
        """True if the last broker closed the store cleanly."""
        return self._note.was_clean

    def begin(self) -> None:
        """Make the store look crashed, durably."""
        replace_file(self._abort, msgspec.json.encode(self._note))
        self._set_queue_time(bytes(8))

    def end(self) -> None:
        """Make the store look as it did before."""
        self._set_queue_time(bytes.fromhex(self._note.queue_time))
        if self._note.was_clean:
            self._abort.unlink(missing_ok=True)
            sync_path(self._root)
        else:
            replace_file(self._abort, self._note.abort.encode())

    def _set_queue_time(self, data: bytes) -> None:
        if data and self._checkpoint_data():
            descriptor = os.open(self._checkpoint, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(descriptor, data, QUEUE_TIME.start)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
