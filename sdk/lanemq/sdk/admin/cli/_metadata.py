"""The commands rocksDBConfigToJson and exportMetadataInRocksDB: tables kept in RocksDB, as JSON.

Source: RocketMQ 5.3.3, RocksDBConfigToJsonCommand, ExportMetadataInRocksDBCommand.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from lanemq.local import write_file
from lanemq.wire import fastjson

from .._client import AdminClient
from .._config_rows import TABLES, read_config_rows
from .command._command import Opener, Output, command, fail
from .command._text import pretty

VERSION_MEMBER = "dataVersion"


@command("rocksDBConfigToJson", connects_itself=True)
@click.option(
    "-t",
    "--configType",
    "types",
    metavar="NAMES",
    help="topics, subscriptionGroups, consumerOffsets; several joined by ;. Default: all of them, "
    "but with -p it must be one.",
)
@click.option("-c", "--cluster", help="Have all brokers of this cluster write their JSON files.")
@click.option("-b", "--brokerAddr", "broker", help="Have this broker write its JSON files.")
@click.option(
    "-p",
    "--configPath",
    "path",
    type=click.Path(path_type=Path),
    help="Read the databases in this config directory instead.",
)
@click.option(
    "-e",
    "--exportFile",
    "file",
    type=click.Path(path_type=Path),
    help="With -p: write this file, an older one becomes .bak.",
)
@click.option(
    "-j",
    "--jsonEnable",
    "as_json",
    default=True,
    show_default=True,
    help="With -p: print JSON, or one line for each entry.",
)
async def rocksdb_config_to_json(
    opener: Opener,
    out: Output,
    *,
    types: str | None,
    cluster: str | None,
    broker: str | None,
    path: Path | None,
    file: Path | None,
    as_json: bool,
) -> object:
    """Write the tables in brokers' RocksDB as JSON: by the brokers, or from a directory."""
    tables = _tables(types)
    if cluster is not None:
        out.line("Use [rpc mode] call all brokers in cluster to export to json file")
        async with opener(None) as admin:
            return await _export_all(admin, out, await admin.masters(cluster.strip()), tables)
    if broker is not None:
        out.line("Use [rpc mode] call broker to export to json file")
        async with opener(broker.strip()) as admin:
            return await _export_all(admin, out, [broker.strip()], tables)
    if path is None:
        fail("give -n NAME_SERVER -c CLUSTER, -b BROKER_ADDRESS, or -p CONFIG_DIRECTORY")
    out.line("Use [local mode] load rocksdb to print or export file")
    if types is None or len(tables) != 1:
        fail(f"local mode Invalid args, please input configType: one of {', '.join(TABLES)}")
    return _print_local(out, path, tables[0], file, as_json=as_json)


async def _export_all(
    admin: AdminClient, out: Output, addresses: Sequence[str], tables: Sequence[str]
) -> object:
    for address in addresses:
        await admin.export_tables(address, tables)
    out.line("broker export done.")
    return {"brokers": list(addresses), "exported": list(tables)}


def _tables(text: str | None) -> list[str]:
    if text is None:
        return list(TABLES)
    by_lower = {name.lower(): name for name in TABLES}
    names = [by_lower.get(part.strip().lower()) for part in text.split(";") if part.strip()]
    if not names or None in names:
        fail(f"Invalid configType: {text} please input {'/'.join(TABLES)}")
    return [name for name in names if name is not None]


def _print_local(
    out: Output, path: Path, table: str, file: Path | None, *, as_json: bool
) -> dict[str, object]:
    _check_directory(path, "Rocksdb path is invalid.")
    rows = read_config_rows(path / table)
    value: dict[str, object] = {TABLES[table]: rows.entries(table)}
    if rows.version is not None and table != "consumerOffsets":
        value[VERSION_MEMBER] = fastjson.loads(rows.version)
    if file is not None:
        _write(file, pretty(value))
    elif as_json:
        out.block(pretty(value))
    else:
        for member in sorted(value):
            out.line(f"type: {member}")
            entries = value[member]
            assert isinstance(entries, dict)
            texts = {name: fastjson.dumps(entry).decode() for name, entry in entries.items()}
            _print_lines(out, texts)
    return value


@command("exportMetadataInRocksDB", connects_itself=True)
@click.option(
    "-p",
    "--path",
    required=True,
    type=click.Path(path_type=Path),
    help="The config directory of the broker.",
)
@click.option("-t", "--configType", "table", required=True, help="topics or subscriptionGroups.")
@click.option(
    "-j",
    "--jsonEnable",
    "as_json",
    default=False,
    show_default=True,
    help="Print JSON, or one line for each entry.",
)
async def export_metadata_in_rocksdb(
    opener: Opener, out: Output, *, path: Path, table: str, as_json: bool
) -> object:
    """Print the topics or groups that a broker keeps in RocksDB, from its directory."""
    names = {name.lower(): name for name in TABLES if name != "consumerOffsets"}
    name = names.get(table.strip().lower())
    if name is None:
        fail(f"Invalid config type={table}, Options: {','.join(names.values())}")
    _check_directory(path, "RocksDB path is invalid.")
    rows = read_config_rows(path / name)
    value = {TABLES[name]: rows.entries(name)}
    if as_json:
        out.block(pretty(value))
    else:
        _print_lines(out, rows.values)
    return value


def _check_directory(path: Path, text: str) -> None:
    if not path.is_dir():
        fail(f"{text} There is no directory {path}")


def _print_lines(out: Output, values: dict[str, str]) -> None:
    for number, (name, text) in enumerate(values.items(), 1):
        out.line(f"{number}, Key: {name}, Value: {text}")


def _write(file: Path, text: str) -> None:
    try:
        if os.path.lexists(file):
            file.replace(file.with_name(file.name + ".bak"))
        write_file(file, text.encode())
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")
