"""A connector: sends each line of a file, and keeps its progress in the broker.

lanemq serve                       # in another terminal
python examples/file_source.py     # or: file_source.py HOST:PORT of a name server, and a FILE

However it is killed, the next run continues there: no line is left out, and at most the one that
was under way is sent twice.
"""

import sys
import tempfile
from pathlib import Path

from lanemq.sdk.blocking import Message, open_producer
from lanemq.sdk.blocking.kv import open_kv_store

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "FileSourceTopic"


def send_lines(path: Path) -> int:
    """Send what the file has behind the checkpoint; returns how many lines that was."""
    sent = 0
    with (
        open_kv_store(name_servers=NAME_SERVERS) as store,
        open_producer("file-source", name_servers=NAME_SERVERS) as producer,
        store.leader(f"file-source {path}", ttl_s=15),  # one at a time
        path.open("rb") as lines,
    ):
        checkpoint = store.checkpoint(f"file-source {path}")
        lines.seek(int(checkpoint.load() or b"0"))
        while line := lines.readline():
            producer.send(Message(topic=TOPIC, body=line.rstrip(b"\n")))
            checkpoint.save(b"%d" % lines.tell())
            sent += 1
    return sent


def main() -> None:
    if len(sys.argv) > 2:
        print(f"{send_lines(Path(sys.argv[2]))} lines are sent")
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lines"
        path.write_bytes(b"".join(b"line %d\n" % number for number in range(10)))
        first = send_lines(path)
        with path.open("ab") as file:
            file.write(b"one more\n")
        print(f"{first} lines are sent, then {send_lines(path)} more")


if __name__ == "__main__":
    main()
