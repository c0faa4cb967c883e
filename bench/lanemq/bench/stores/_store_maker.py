"""A store directory with very many messages, made without a broker.

The records are whole, checksums included. Their bodies are words, which repeat after some
thousands of messages: more than a dictionary of Parquet keeps.
"""

import random
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final, final

from lanemq.wire import tags_code
from lanemq.wire.message import MAGIC_BLANK, encode_properties, encode_record

HOST: Final = bytes((127, 0, 0, 1, 0, 0, 42, 159))
TOPIC: Final = "Bench"
TAG: Final = "TagA"
START_MS: Final = 1_700_000_000_000
LOG_FILE_BYTES: Final = 1 << 30
QUEUE_FILE_BYTES: Final = 6_000_000
CHUNK: Final = 4096
BODIES: Final = 4096
WORDS: Final = 500
PLACE_AT: Final = 12  # of the queue id in a record
PLACE: Final = Struct(">i4xqq")  # queue id, flag, queue offset, log position
TIME_AT: Final = 56
TIME: Final = Struct(">q")
UNIT: Final = Struct(">qiq")
BLANK: Final = Struct(">ii")


def make_store(
    root: Path,
    *,
    messages: int,
    queues: int,
    body_bytes: int,
    log_file_bytes: int = LOG_FILE_BYTES,
    queue_file_bytes: int = QUEUE_FILE_BYTES,
) -> int:
    """Write a log and the files of its queues, in turn to each; the size of a record in bytes.

    Raises ``OSError``.
    """
    (root / "config").mkdir(parents=True)
    units = [bytearray() for _ in range(queues)]
    templates = [_template(body) for body in _bodies(min(messages, BODIES), body_bytes)]
    record_bytes = len(templates[0])
    log = _Log(root / "commitlog", log_file_bytes)
    code = tags_code(TAG)
    for number in range(messages):
        template = templates[number % BODIES]
        position = log.room(record_bytes)
        queue_id = number % queues
        PLACE.pack_into(template, PLACE_AT, queue_id, number // queues, position)
        TIME.pack_into(template, TIME_AT, START_MS + number // 100)
        units[queue_id] += UNIT.pack(position, record_bytes, code)
        log.append(bytes(template))
    log.close()
    for queue_id, data in enumerate(units):
        directory = root / "consumequeue" / TOPIC / str(queue_id)
        directory.mkdir(parents=True)
        for at in range(0, len(data), queue_file_bytes):
            part = bytes(data[at : at + queue_file_bytes])
            (directory / f"{at:020d}").write_bytes(part.ljust(queue_file_bytes, b"\0"))
    return record_bytes


def _bodies(count: int, size_bytes: int) -> list[bytes]:
    words = random.Random(1)
    known = [words.randbytes(words.randint(1, 5)).hex().encode() for _ in range(WORDS)]
    return [
        b" ".join(words.choices(known, k=size_bytes // 3 + 1))[:size_bytes] for _ in range(count)
    ]


def _template(body: bytes) -> bytearray:
    """Return a record whose place and store time are to be filled in."""
    return bytearray(
        encode_record(
            topic=TOPIC.encode(),
            body=body,
            properties=encode_properties({"UNIQ_KEY": "7F00000100002A9F" * 2, "TAGS": TAG}),
            queue_id=0,
            flag=0,
            queue_offset=0,
            log_position=0,
            sys_flag=0,
            born_timestamp_ms=START_MS,
            born_host=HOST,
            store_timestamp_ms=START_MS,
            store_host=HOST,
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
    )


@final
class _Log:
    """Writes log files one after the other."""

    def __init__(self, directory: Path, file_bytes: int) -> None:
        directory.mkdir()
        self._directory = directory
        self._file_bytes = file_bytes
        self._file = self._new_file(0)
        self._parts: list[bytes] = []
        self.position = 0

    def _new_file(self, start: int) -> BinaryIO:
        file = (self._directory / f"{start:020d}").open("wb")
        file.truncate(self._file_bytes)
        return file

    def room(self, size_bytes: int) -> int:
        """Return the position for a record: here, or at the begin of the next file."""
        room = self._file_bytes - self.position % self._file_bytes
        if size_bytes + BLANK.size > room:
            self._parts.append(BLANK.pack(room, MAGIC_BLANK))
            self.close()
            self.position += room
            self._file = self._new_file(self.position)
        return self.position

    def append(self, record: bytes) -> None:
        self._parts.append(record)
        self.position += len(record)
        if len(self._parts) == CHUNK:
            self._write()

    def _write(self) -> None:
        self._file.write(b"".join(self._parts))
        self._parts = []

    def close(self) -> None:
        self._write()
        self._file.close()
