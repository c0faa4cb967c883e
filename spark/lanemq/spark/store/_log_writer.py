"""The files of a new log, written record by record as a broker writes them.

Layout: ``lanemq.wire.message.RECORD_LAYOUTS``; a file ends with a blank header if the next record
has no room. Source: RocketMQ 4.9.8, CommitLog.DefaultAppendMessageCallback.
"""

import os
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final, NamedTuple, final

from lanemq.local import create_file, make_directories
from lanemq.wire import HostAddress, SysFlag, fixed_prefix
from lanemq.wire.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_LAYOUTS, body_crc

from .._errors import SourceError
from ._log import Piece

HEADS: Final = {
    hosts: fixed_prefix(RECORD_LAYOUTS[MAGIC_V1, hosts]).struct
    for hosts in (0, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_V6_MASK)
}
BLANK: Final = Struct(">ii")
SHORT_TOPIC_BYTES: Final = 127
PROPERTIES_BYTES: Final = (1 << 15) - 1
COMPRESSION: Final = SysFlag.COMPRESSED | 0x700
"""The bit of compressed bodies and those of the kind of compression."""


class LogRecord(NamedTuple):
    """A message as a record has it, but for its place in the log; the body is not compressed."""

    topic: str
    queue: int
    queue_offset: int
    flag: int
    sys_flag: int
    born_ms: int
    born_host: HostAddress
    store_ms: int
    store_host: HostAddress
    reconsume_times: int
    body: bytes
    properties: bytes


@final
class LogWriter:
    """A log in a directory, from position 0 on."""

    def __init__(self, directory: Path, file_bytes: int) -> None:
        make_directories(directory)
        self._directory = directory
        self._file_bytes = file_bytes
        self._file: BinaryIO | None = None
        self._end = 0
        self.position = 0

    def put(self, record: LogRecord) -> None:
        """Write a record. Raises ``SourceError`` if no file of the log has room for it."""
        topic = record.topic.encode()
        is_short = len(topic) <= SHORT_TOPIC_BYTES
        hosts = (
            SysFlag.BORN_HOST_V6 * record.born_host.is_v6
            | SysFlag.STORE_HOST_V6 * record.store_host.is_v6
        )
        head = HEADS[hosts]
        size = head.size + len(record.body) + (1 if is_short else 2) + len(topic)
        size += 2 + len(record.properties)
        if size + BLANK.size > self._file_bytes or len(record.properties) > PROPERTIES_BYTES:
            raise SourceError(
                f"offset {record.queue_offset} of queue {record.queue} of {record.topic}: a message"
                f" of {size:,} bytes has no room in a file of {self._file_bytes:,} bytes"
            )
        file = self._room(size)
        flag = record.sys_flag & ~(COMPRESSION | SysFlag.HOSTS_V6_MASK) | hosts
        packed = head.pack(
            size,
            MAGIC_V1 if is_short else MAGIC_V2,
            body_crc(record.body) if record.body else 0,
            record.queue,
            record.flag,
            record.queue_offset,
            self.position,
            flag,
            record.born_ms,
            record.born_host.packed,
            record.store_ms,
            record.store_host.packed,
            record.reconsume_times,
            0,  # the place of a prepared message, which is not in the archive
            len(record.body),
        )
        file.write(packed + record.body + len(topic).to_bytes(1 if is_short else 2, "big") + topic)
        file.write(len(record.properties).to_bytes(2, "big") + record.properties)
        self.position += size

    def close(self) -> None:
        """End the log."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _room(self, size: int) -> BinaryIO:
        file = self._file
        if file is not None and size + BLANK.size > self._end - self.position:
            file.write(BLANK.pack(self._end - self.position, MAGIC_BLANK))
            self.position = self._end
            self.close()
            file = None
        if file is None:
            path = self._directory / Piece(self.position, 0).name
            file = self._file = create_file(path)
            file.truncate(self._file_bytes)  # a hole: zeros, which take no room
            self._end = self.position + self._file_bytes
        return file
