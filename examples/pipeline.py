"""Two steps, joined by topics, which keep their progress as keys in the broker.

lanemq serve                       # in another terminal
python examples/pipeline.py        # tries itself out
python examples/pipeline.py HOST:PORT source FILE       # of a name server; makes the topics
python examples/pipeline.py HOST:PORT shout

The source sends the lines of a file, the second step reads them and sends each in capitals.
Kill either of them at any time and start it again: no line is left out, and at most the one that
was under way is done twice. All lines go to one queue, which keeps their order, and
behind them goes a message with the tag "end".
"""

import sys
import tempfile
import threading
from pathlib import Path

from lanemq.sdk.blocking import ConsumeFrom, Message, open_lite_pull_consumer, open_producer
from lanemq.sdk.blocking.kv import KvOffsetStore, open_kv_store

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
LINES, SHOUTED = "PipelineLines", "PipelineShouted"
ONE_QUEUE = "lines"
END = "end"


def source(path: Path) -> None:
    """Send what the file has behind its checkpoint, and a message that says so."""
    with (
        open_kv_store(name_servers=NAME_SERVERS) as store,
        open_producer("pipeline-source", name_servers=NAME_SERVERS) as producer,
        store.leader(f"pipeline-source {path}", ttl_s=15),  # one at a time
        path.open("rb") as lines,
    ):
        checkpoint = store.checkpoint(f"pipeline-source {path}")
        lines.seek(int(checkpoint.load() or b"0"))
        while line := lines.readline():
            producer.send(Message(topic=LINES, body=line.rstrip(b"\n")), queue_key=ONE_QUEUE)
            checkpoint.save(b"%d" % lines.tell())
        producer.send(Message(topic=LINES, body=b"end", tags=END), queue_key=ONE_QUEUE)


def shout() -> int:
    """Send what was read in capitals, until the end of a file was read; returns how many lines."""
    shouted = 0
    with (
        open_kv_store(name_servers=NAME_SERVERS) as store,
        open_producer("pipeline-shout", name_servers=NAME_SERVERS) as producer,
        store.leader("pipeline-shout", ttl_s=15),
        open_lite_pull_consumer(
            "pipeline-shout",
            name_servers=NAME_SERVERS,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            offset_store=KvOffsetStore(store, "pipeline-shout"),
            auto_commit=False,
        ) as consumer,
    ):
        consumer.assign(consumer.queues_of(LINES))
        for message in consumer:
            if message.tags != END:
                body = message.body.upper()
                producer.send(Message(topic=SHOUTED, body=body), queue_key=ONE_QUEUE)
                shouted += 1
            consumer.commit()
            if message.tags == END:
                break
    return shouted


def main() -> None:
    if sys.argv[2:3] == ["source"] and len(sys.argv) == 4:
        source(Path(sys.argv[3]))
        return
    if sys.argv[2:] == ["shout"]:
        shout()
        return
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lines"
        path.write_bytes(b"".join(b"line %d\n" % number for number in range(10)))
        first = threading.Thread(target=source, args=(path,))
        first.start()
        first.join()
        print(f"{shout()} lines have come through both steps")


if __name__ == "__main__":
    main()
