"""Jobs about messages wherever they are: archive them, restore, compare, count, find."""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from lanemq.local import print_json as write_json
from lanemq.local import print_line

from .._uris import new_store
from ._command import (
    EXIT_FOUND,
    Failed,
    access_of,
    access_options,
    json_option,
    master_option,
    print_json,
    print_table,
    session,
)

topics_option = click.option("--topic", "topics", multiple=True, help="May be repeated.")
output_option = click.option("--output", help="A new directory for all rows, as Parquet.")


@click.command()
@click.argument("source")
@click.argument("target")
@topics_option
@click.option("--broker", default="", help="The name of the broker whose store SOURCE is.")
@access_options
@master_option
@json_option
def archive(
    source: str,
    target: str,
    topics: tuple[str, ...],
    broker: str,
    master: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - options of pyspark
) -> None:
    """Add to the archive TARGET what it does not have yet of SOURCE, in one commit.

    SOURCE is a store, or rocketmq://HOST:PORT, the name servers of a cluster. TARGET is a
    directory, or a table: delta:PATH, or iceberg://CATALOG/NAMESPACE.TABLE. A run that was stopped,
    or killed, has added nothing: run it again. Exit status: 0 all messages are archived,
    1 some are missing between others, 2 it could not be done.
    """
    with session("archive", master, places=(source, target)) as spark:
        from ..jobs import archive as run

        done = run(spark, source, target, topics=topics, broker=broker, options=access_of(options))
    if as_json:
        print_json(done)
    else:
        print_table(("topic", "messages added"), [*done.topics.items()])
        print_line(f"{done.messages:,} messages added to {done.target}, commit {done.version}")
    if done.missing:
        print_line(f"{done.missing:,} messages between those archived were not there", err=True)
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("archive_path", metavar="ARCHIVE")
@click.argument("store")
@topics_option
@click.option("--broker", help="The broker whose messages are meant, if there are several.")
@click.option("--renumber", is_flag=True, help="Close holes of queues, by other offsets.")
@click.option(
    "--log-file-bytes",
    type=click.IntRange(min=4096),
    default=1 << 30,
    show_default=True,
    help="mappedFileSizeCommitLog of the broker that is to read the store.",
)
@click.option(
    "--queue-file-bytes",
    type=click.IntRange(min=20),
    default=6_000_000,
    show_default=True,
    help="mappedFileSizeConsumeQueue of that broker.",
)
@master_option
@json_option
def restore(
    archive_path: str,
    store: str,
    topics: tuple[str, ...],
    broker: str | None,
    renumber: bool,
    log_file_bytes: int,
    queue_file_bytes: int,
    master: str | None,
    as_json: bool,
) -> None:
    """Make the new directory STORE, a broker's store, from an archive of Parquet.

    Exit status: 0 all messages are there, 1 some have no body in the archive and were left out, 2
    it could not be done.
    """
    before = (partial(new_store, store),)
    with session("restore", master, places=(archive_path,), before=before) as spark:
        from ..jobs import restore as run

        done = run(
            spark,
            archive_path,
            store,
            topics=topics,
            broker=broker,
            renumber=renumber,
            log_file_bytes=log_file_bytes,
            queue_file_bytes=queue_file_bytes,
        )
    if as_json:
        print_json(done)
    else:
        print_table(("topic", "messages"), [*done.topics.items()])
        print_line(f"{done.messages:,} messages in {done.store}, {done.renumbered:,} renumbered")
    if done.left_out:
        print_line(f"{done.left_out:,} have no body in the archive, and were left out", err=True)
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("left")
@click.argument("right")
@topics_option
@output_option
@access_options
@master_option
@json_option
def compare(
    left: str,
    right: str,
    topics: tuple[str, ...],
    output: str | None,
    master: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - options of pyspark
) -> None:
    """Compare the messages of LEFT and RIGHT by unique key and checksum.

    Each is a store, an archive, or rocketmq://HOST:PORT. Exit status: 0 both have the same
    messages, 1 they differ, 2 they could not be compared.
    """
    with session("compare", master, places=(left, right)) as spark:
        from ..jobs import compare as run

        done = run(spark, left, right, topics=topics, options=access_of(options), output=output)
    if as_json:
        print_json(done)
    else:
        print_table(
            ("topic", "unique key", "difference", "left", "right"),
            [(one.topic, one.message_id, one.kind, one.left, one.right) for one in done.first],
        )
        total = sum(done.differences.values())
        print_line(
            f"{done.left_messages:,} messages in {done.left}, {done.right_messages:,} in"
            f" {done.right}, {total:,} differences"
        )
    if done.differences:
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("source")
@topics_option
@access_options
@master_option
@json_option
def count(
    source: str,
    topics: tuple[str, ...],
    master: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - options of pyspark
) -> None:
    """Count the messages of SOURCE, a store, an archive or rocketmq://HOST:PORT, by topic.

    Exit status: 0 it is done, 2 it could not be done.
    """
    with session("count", master, places=(source,)) as spark:
        from ..jobs import count as run

        done = run(spark, source, topics=topics, options=access_of(options))
    if as_json:
        write_json(json.dumps(done, indent=2))
        return
    print_table(("topic", "messages"), [*done.items()])
    what = "topic" if len(done) == 1 else "topics"
    print_line(f"{sum(done.values()):,} messages of {len(done):,} {what}")


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("--key", "keys", multiple=True, required=True, help="May be repeated.")
@topics_option
@click.option("--since", help="Stored then or later, as 2026-01-31 or 2026-01-31T12:00, in UTC.")
@click.option("--until", help="Stored before then.")
@output_option
@access_options
@master_option
@json_option
def find(
    sources: tuple[str, ...],
    keys: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    output: str | None,
    master: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - options of pyspark
) -> None:
    """Find messages by key in SOURCES: stores, archives, or rocketmq://HOST:PORT.

    A key is one of the message's keys or its unique key. The first thousand are shown. Exit
    status: 0 there are some, 1 there are none, 2 it could not be done.
    """
    first, end = _time(since, "--since"), _time(until, "--until")
    with session("find", master, places=sources) as spark:
        from ..jobs import find as run

        done = run(
            spark,
            sources,
            keys,
            topics=topics,
            since=first,
            until=end,
            options=access_of(options),
            output=output,
        )
    if as_json:
        print_json(done)
    else:
        print_table(
            ("source", "stored (UTC)", "broker", "topic", "queue", "offset", "unique key", "keys"),
            [
                (
                    *(one.source, datetime.fromtimestamp(one.store_ms / 1000, UTC).isoformat()),
                    *(one.broker, one.topic, one.queue, one.queue_offset),
                    *(one.message_id, one.keys or ""),
                )
                for one in done
            ],
        )
    if not done:
        raise SystemExit(EXIT_FOUND)


def _time(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise Failed(f"{option} {text}: it takes a time as 2026-01-31T12:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
