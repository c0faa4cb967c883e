"""Jobs about stores: check, compare, build, convert."""

import click

from lanemq.local import print_line

from ._command import (
    EXIT_FOUND,
    Failed,
    json_option,
    master_option,
    print_json,
    print_table,
    session,
)

SIDES = ("files", "rocksdb", "log")
DAMAGED_SHOWN = 10


@click.command()
@click.argument("stores", nargs=-1, required=True)
@master_option
@json_option
def verify(stores: tuple[str, ...], master: str | None, as_json: bool) -> None:
    """Check stores at rest: every record of their logs, and their queues against these.

    Exit status: 0 they are sound, 1 there are problems, 2 one could not be checked.
    """
    with session("verify", master) as spark:
        from ..jobs import verify as run

        done = [run(spark, store) for store in stores]
    if as_json:
        print_json(done)
    else:
        print_table(
            ("store", "records", "damage", "queues", "missing", "wrong", "superfluous", "pending"),
            [
                (
                    one.store,
                    one.records,
                    sum(one.damage.values()),
                    queues.source if queues.counts else f"{queues.source} (not read)",
                    queues.missing,
                    queues.wrong,
                    queues.superfluous,
                    queues.pending,
                )
                for one in done
                for queues in one.queues
            ],
        )
        for one in done:
            for damage in one.first_damage:
                print_line(f"{damage.file}, log position {damage.log_position}: {damage.why}")
            print_line(f"{one.store} {'is sound' if one.is_sound else 'has problems'}")
    if not all(one.is_sound for one in done):
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("store")
@click.option("--left", type=click.Choice(SIDES), default="files", show_default=True)
@click.option("--right", type=click.Choice(SIDES), default="rocksdb", show_default=True)
@click.option("--output", help="A new directory for every difference, as Parquet.")
@master_option
@json_option
def diff(
    store: str, left: str, right: str, output: str | None, master: str | None, as_json: bool
) -> None:
    """Compare the queues of a store at rest, from two of files, RocksDB and the log.

    Exit status: 0 both are the same, 1 they differ, 2 they could not be compared.
    """
    if left == right:
        raise Failed("--left and --right are the same: there is nothing to compare")
    with session("diff", master) as spark:
        from ..jobs import diff as run

        done = run(spark, store, left, right, output=output)
    if as_json:
        print_json(done)
    else:
        sides = {"missing left": f"not in {left}", "missing right": f"not in {right}"}
        print_table(
            ("topic", "queue", "difference", "messages", "from offset"),
            [
                (one.topic, one.queue, sides.get(one.kind, one.kind), one.count, one.first_offset)
                for one in done.queues
            ],
        )
        print_line(
            f"{done.left_units:,} units in {left}, {done.right_units:,} in {right},"
            f" {done.differences:,} differences"
        )
    if done.differences:
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("store")
@master_option
@json_option
def build(store: str, master: str | None, as_json: bool) -> None:
    """Make the queues of a store at rest in RocksDB, from its log alone.

    Tasks make sorted tables in parallel, which are taken in beside the store; the result is
    compared with the log and with what can be read now before it replaces anything. Exit status: 0
    it is done, 1 messages of the log have no place in it or are damaged, 2 it could not be done.
    """
    with session("build", master) as spark:
        from ..jobs import build as run

        done = run(spark, store)
    if as_json:
        print_json(done)
    else:
        rate = f", {done.units / done.seconds:,.0f} a second" if done.seconds > 1 else ""
        print_line(
            f"{done.units:,} messages of {done.queues:,} queues in RocksDB, by {done.tables} sorted"
            f" tables in {done.seconds:.1f} s{rate}"
        )
        if done.kept is not None:
            print_line(
                f"what was replaced is in {done.kept}, until lanemq has started on the result"
            )
    if done.unplaced:
        print_line(f"{done.unplaced:,} messages of the log could not be given a place", err=True)
    for damaged in done.damaged[:DAMAGED_SHOWN]:
        print_line(f"problem: {damaged}", err=True)
    if len(done.damaged) > DAMAGED_SHOWN:
        print_line(f"problem: {len(done.damaged) - DAMAGED_SHOWN:,} more are damaged", err=True)
    if done.unplaced or done.damaged:
        raise SystemExit(EXIT_FOUND)


@click.command()
@click.argument("stores", nargs=-1, required=True)
@click.option(
    "--to",
    "target",
    type=click.Choice(["rocksdb", "json"]),
    required=True,
    help="Where topics, groups and offsets are wanted.",
)
@click.option("--force", is_flag=True, help="With --to json: overwrite files that are newer.")
@master_option
@json_option
def convert(
    stores: tuple[str, ...], target: str, force: bool, master: str | None, as_json: bool
) -> None:
    """Bring topics, groups and offsets of stores at rest to RocksDB, or back to JSON.

    Each store is a task. Exit status: 0 it is done, 2 it could not be done.
    """
    with session("convert", master) as spark:
        from ..jobs import convert as run

        done = run(spark, list(stores), target, force=force)
    if as_json:
        print_json(done)
        return
    print_table(
        ("store", "table", "entries", "where"),
        [
            (one.store, table.name, table.entries, table.path)
            for one in done
            for table in one.tables
        ],
    )
