"""Jobs about keys and values."""

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

namespace_option = click.option("--namespace", help="Only this one.")


@click.group()
def kv() -> None:
    """Keys and values: export, import, compare."""


@kv.command("export")
@click.argument("store")
@click.argument("target")
@namespace_option
@master_option
@json_option
def export_command(
    store: str, target: str, namespace: str | None, master: str | None, as_json: bool
) -> None:
    """Write the entries of STORE, which is at rest, to TARGET as Parquet.

    What was written is read again and counted. Exit status: 0 it is done, 2 it could not be done.
    """
    with session("kv export", master) as spark:
        from ..jobs import export_kv

        done = export_kv(spark, store, target, namespace=namespace)
    if as_json:
        print_json(done)
        return
    print_table(
        ("namespace", "entries", "records of its log"),
        [(name, count, done.positions[name]) for name, count in done.entries.items()],
    )


@kv.command("import")
@click.argument("source")
@click.option("--namespace", default="default", show_default=True)
@click.option("--to", "target", help="The namespace to import to, if it has another name.")
@click.option("--broker", help="The name of the broker that keeps a new namespace.")
@click.option("--replace", is_flag=True, help="Empty the namespace first.")
@cluster_options
@master_option
@json_option
def import_command(
    source: str,
    namespace: str,
    target: str | None,
    broker: str | None,
    replace: bool,
    master: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - options of pyspark
) -> None:
    """Take a namespace of SOURCE, an export or a store at rest, over to a broker, by its log.

    Versions and times come along. Exit status: 0 it is done, 2 it could not be done.
    """
    with session("kv import", master) as spark:
        from ..jobs import import_kv

        done = import_kv(
            spark,
            source,
            namespace=namespace,
            cluster=cluster_of(options),
            target=target,
            broker=broker,
            replace=replace,
        )
    if as_json:
        print_json(done)
        return
    print_line(f"{done.entries:,} entries in namespace {done.namespace}")


@kv.command("diff")
@click.argument("left")
@click.argument("right")
@namespace_option
@master_option
@json_option
def diff_command(
    left: str, right: str, namespace: str | None, master: str | None, as_json: bool
) -> None:
    """Compare the entries of LEFT and RIGHT, each an export or a store at rest.

    Exit status: 0 both are the same, 1 they differ, 2 they could not be compared.
    """
    with session("kv diff", master) as spark:
        from ..jobs import diff_kv

        done = diff_kv(spark, left, right, namespace=namespace)
    if as_json:
        print_json(done)
    else:
        print_table(
            ("namespace", "key (hexadecimal)", "difference"),
            [(one.namespace, one.key, one.kind) for one in done.first],
        )
        total = sum(done.differences.values())
        print_line(
            f"{done.left_entries:,} entries in {left}, {done.right_entries:,} in {right},"
            f" {total:,} differences"
        )
    if done.differences:
        raise SystemExit(EXIT_FOUND)
