"""Jobs about archives of messages: write one, look into it, send it again."""

from typing import Any

import click

from lanemq.local import print_line

from ._command import (
    EXIT_FOUND,
    cluster_of,
    cluster_options,
    json_option,
    master_option,
    print_json,
    print_table,
    session,
)


@click.command()
@click.argument("store")
@click.argument("target")
@click.option("--format", "file_format", type=click.Choice(["parquet", "json"]), default="parquet")
@click.option("--topic", "topics", multiple=True, help="Only this one; may be repeated.")
@click.option(
    "--mode",
    type=click.Choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"], case_sensitive=False),
    default="PERMISSIVE",
    help="Treatment of damaged messages.",
)
@click.option(
    "--offsets", "with_offsets", is_flag=True, help="Write how far groups are, too, for lag."
)
@master_option
@json_option
def export(
    store: str,
    target: str,
    file_format: str,
    topics: tuple[str, ...],
    mode: str,
    with_offsets: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Write the messages of STORE to TARGET, in directories by topic and day.

    Both are paths or URIs that every machine of the cluster reaches. What was written is read
    again and counted. Exit status: 0 all of the store is there, 1 the store is damaged, 2 it could
    not be done.
    """
    with session("export", master) as spark:
        from ..jobs import export as run

        done = run(
            spark,
            store,
            target,
            file_format=file_format,
            topics=topics,
            mode=mode.upper(),
            with_offsets=with_offsets,
        )
    if as_json:
        print_json(done)
    else:
        print_table(("topic", "messages"), [*done.topics.items()])
        print_line(f"{done.rows:,} messages in {done.target}")
    if done.damaged:
        what = "piece" if done.damaged == 1 else "pieces"
        print_line(
            f"{store} has {done.damaged} damaged {what}: the table damage lists them", err=True
        )
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("source")
@click.option("--offsets", help="A store whose groups count, in place of SOURCE's own.")
@master_option
@json_option
def lag(source: str, offsets: str | None, master: str | None, as_json: bool) -> None:
    """Show how far groups are behind, also in stages, and what they gave up.

    SOURCE is a store at rest, or an archive that `export --offsets` wrote. Exit status: 0 it was
    done, 2 it could not be done.
    """
    with session("lag", master) as spark:
        from ..jobs import lag as run

        done = run(spark, source, offsets=offsets)
    if as_json:
        print_json(done)
        return
    print_table(
        ("group", "topic", "queue", "offset", "end", "lag"),
        [(one.group, one.topic, one.queue, one.offset, one.end, one.lag) for one in done.groups],
    )
    if done.stages:
        print_table(
            ("in stages", "strategy", "topic", "queue", "offset", "finished", "waiting", "kept by"),
            [
                (
                    *(one.group, one.strategy or "", one.topic, one.queue),
                    *(one.offset, one.finished, one.waiting, one.kept_by),
                )
                for one in done.stages
            ],
        )
    print_table(
        ("dead letters of group", "from topic", "messages"),
        [(one.group, one.topic or "", one.messages) for one in done.dead],
    )
    dead = sum(one.messages for one in done.dead)
    print_line(f"{done.lag:,} messages not consumed, {dead:,} dead letters")


@click.command()
@click.argument("archive")
@click.option("--topic", required=True, help="The topic in the archive.")
@click.option("--to", "target", help="The topic to send to, if it has another name.")
@click.option("--name", help="Of the replay; a run of the same name goes on where one was.")
@click.option("--store-host", help="HOST:PORT of the broker whose messages are meant.")
@cluster_options
@master_option
@json_option
def replay(
    archive: str,
    topic: str,
    target: str | None,
    name: str | None,
    store_host: str | None,
    master: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - options of pyspark
) -> None:
    """Send the messages of an archive to a topic, each queue in its order.

    A run that was stopped, or killed, is run again, and goes on where it was. Exit status: 0 all of
    them are there, 2 it could not be done.
    """
    with session("replay", master, places=(archive,)) as spark:
        from ..jobs import replay as run

        cluster = cluster_of(options)
        done = run(
            spark, archive, topic, cluster=cluster, target=target, name=name, store_host=store_host
        )
    if as_json:
        print_json(done)
        return
    print_line(
        f"{done.sent:,} messages of {done.queues} queues sent to {done.target},"
        f" {done.there:,} were there already"
    )
    if done.left_out:
        print_line(f"{done.left_out:,} have no body in the archive, and were left out")


@click.command()
@click.argument("source")
@click.argument("output")
@master_option
@json_option
def report(source: str, output: str, master: str | None, as_json: bool) -> None:
    """Write a page of HTML about SOURCE, a store at rest or an archive, to the file OUTPUT.

    It shows rates, sizes, tags, lags and stages as charts, and needs nothing beside itself. Exit
    code: 0 it was done, 2 it could not be done.
    """
    with session("report", master, places=(source,)) as spark:
        from ..jobs import report as run

        done = run(spark, source, output)
    if as_json:
        print_json(done)
    else:
        print_line(f"{done.messages:,} messages of {done.topics:,} topics in {done.output}")
