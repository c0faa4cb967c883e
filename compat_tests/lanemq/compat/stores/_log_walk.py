"""The commit log of a store as a list of records, read without any of the store's indexes."""

from collections.abc import Iterator
from pathlib import Path

from lanemq.wire.message import StoredMessage, decode_message

MESSAGE_MAGICS = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")


def walk_log(store: Path) -> Iterator[StoredMessage]:
    """Read every message from the first log file to the end of the last. For small stores."""
    for file in sorted((store / "commitlog").iterdir()):
        data = file.read_bytes()
        position = 0
        while data[position + 4 : position + 8] in MESSAGE_MAGICS:
            size = int.from_bytes(data[position : position + 4], "big")
            yield decode_message(data[position : position + size])
            position += size
