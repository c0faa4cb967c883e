"""``lanemq spark audit``: whether a group has consumed messages exactly once."""

import click

from ._command import EXIT_FOUND, json_option, master_option, print_json, print_table, session


@click.command()
@click.argument("source")
@click.option("--topic", required=True)
@click.option("--group", required=True)
@click.option("--offsets", help="A store whose offsets of groups count, in place of SOURCE's.")
@click.option("--records", help="Parquet with group, msgId and success, in place of the trace.")
@click.option("--trace-topic", default="RMQ_SYS_TRACE_TOPIC", show_default=True)
@click.option("--output", help="A new directory for all rows, as Parquet.")
@master_option
@json_option
def audit(
    source: str,
    topic: str,
    group: str,
    offsets: str | None,
    records: str | None,
    trace_topic: str,
    output: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Say of every message of a topic whether a group has consumed it exactly once.

    From the group's offsets and the message trace of its consumers, in SOURCE, a store or an
    archive. Exit status: 0 each message that the group has passed was consumed once, 1 it was not
    or there is no record of it, 2 it could not be done.
    """
    with session("audit", master, places=(source,)) as spark:
        from ..jobs import audit as run

        done = run(
            spark,
            source,
            topic,
            group,
            offsets=offsets,
            records=records,
            trace_topic=trace_topic,
            output=output,
        )
    if as_json:
        print_json(done)
    else:
        print_table(("of the group", "messages"), [*done.kinds.items()])
        print_table(
            ("queue", "offset", "unique key", "", "attempts", "successes"),
            [
                (
                    *(one.queue, one.queue_offset, one.message_id),
                    *(one.kind, one.attempts, one.successes),
                )
                for one in done.first
            ],
        )
    if not done.is_exact:
        raise SystemExit(EXIT_FOUND)
