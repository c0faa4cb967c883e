"""Commands about ranges of keys and their history, and transactions: range, compact, txn."""

import os
import shlex
import sys
from pathlib import Path

import click

from lanemq.local import print_line
from lanemq.wire import LONG_MAX
from lanemq.wire.kv import LEASE_MAX, Compare, Operation, OperationKind

from .._store import KeyValueStore
from ._command import EXIT_NO, Output, entry_value, kv_command
from ._positions import Positions


@kv_command("range")
@click.argument("begin", default="")
@click.argument("end", required=False)
@click.option("--limit", type=click.IntRange(min=1), help="Number of entries at most.")
@click.option("--reverse", is_flag=True, help="From the last key back.")
@click.option("--keys-only", is_flag=True, help="Without values.")
@click.option("--count", "count_only", is_flag=True, help="Print only how many there are.")
@click.option("--revision", type=Positions(), help="As it was at that revision.")
async def range_command(
    store: KeyValueStore,
    output: Output,
    *,
    begin: str,
    end: str | None,
    limit: int | None,
    reverse: bool,
    keys_only: bool,
    count_only: bool,
    revision: tuple[int, ...] | None,
) -> int:
    """Print the entries from the key BEGIN up to, but without, END; without END, all others.

    All are of one moment: now, or that of --revision, as far as the history is known. Of several
    partitions a revision is N,N,... Prints key and value of each entry.
    """
    first = output.bytes_of(begin)
    last = None if end is None else output.bytes_of(end)
    if count_only:
        count = await store.count(first, last, revision=revision)
        output.value({"count": count})
        output.line(b"%d" % count)
        return 0
    left, cursor = limit or LONG_MAX, None
    while True:
        page = await store.range(
            first,
            last,
            limit=min(left, 1000),
            cursor=cursor,
            reverse=reverse,
            keys_only=keys_only,
            revision=revision,
        )
        for entry in page.entries:
            output.value(entry_value(entry))
            value = () if keys_only else (output.written(entry.value),)
            output.line(output.written_key(entry.key), *value)
        left -= len(page.entries)
        cursor, revision = page.cursor, page.positions
        if cursor is None or left <= 0:
            return 0


@kv_command("compact")
@click.argument("revision", type=Positions())
async def compact(store: KeyValueStore, output: Output, *, revision: tuple[int, ...]) -> int:
    """Forget the history before REVISION: watches and reads of the past cannot begin earlier.

    Of several partitions it is N,N,..., one for each.
    """
    await store.compact(revision)
    output.value({"revision": list(revision)})
    shown = ",".join(map(str, revision))
    output.line(f"the history of {store.namespace} begins at revision {shown}".encode())
    return 0


@kv_command("txn")
@click.argument("file", default="-", type=click.Path(path_type=Path, allow_dash=True))
async def txn(store: KeyValueStore, output: Output, *, file: Path) -> int:
    """Do a transaction that is read from FILE, or from standard input.

    Each line is a comparison or an operation, in words as a shell has them:

    \b
    if version KEY = 3          also revision, lease and value; and !=, < and >
    if exists KEY               or missing
    then put KEY VALUE          done if all comparisons hold
    then put KEY VALUE lease 7  under the lease of that number
    else get KEY                done otherwise; also delete KEY

    Prints whether the comparisons held, and a line for each operation. The exit status is 1 if
    they did not hold.
    """
    text = _text_of(file)
    compares: list[Compare] = []
    branches: dict[str, list[Operation]] = {"then": [], "else": []}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
            if words:
                _take(words, output, compares, branches)
        except ValueError as error:
            raise click.UsageError(f"line {number}, {line!r}: {error}") from error
    then, otherwise = branches["then"], branches["else"]
    result = await store.txn(compares, then=then, otherwise=otherwise)
    output.value(
        {
            "succeeded": result.succeeded,
            "revision": result.revision,
            "results": [
                {"version": one.version, "entry": one.entry and entry_value(one.entry)}
                for one in result.results
            ],
        }
    )
    output.line(b"succeeded" if result.succeeded else b"not succeeded")
    for operation, one in zip(then if result.succeeded else otherwise, result.results, strict=True):
        key = output.written_key(operation.key)
        if operation.kind is not OperationKind.GET:
            output.line(operation.kind.name.lower().encode(), key, b"version %d" % one.version)
        elif one.entry is not None:
            output.line(b"get", key, output.written(one.entry.value))
        else:
            output.line(b"get", key)
            print_line(f"there is no key {operation.key!r}", err=True)
    return 0 if result.succeeded else EXIT_NO


def _text_of(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else os.fsdecode(file.read_bytes())


def _take(
    words: list[str],
    output: Output,
    compares: list[Compare],
    branches: dict[str, list[Operation]],
) -> None:
    """Take a line of a transaction. Raises ``ValueError``."""
    match words:
        case ["if", "exists", key]:
            compares.append(Compare.exists(output.bytes_of(key)))
        case ["if", "missing", key]:
            compares.append(Compare.missing(output.bytes_of(key)))
        case ["if", "version", key, relation, number]:
            compares.append(Compare.version(output.bytes_of(key), relation, _number(number)))
        case ["if", "revision", key, relation, number]:
            compares.append(Compare.revision(output.bytes_of(key), relation, _number(number)))
        case ["if", "lease", key, relation, number]:
            compares.append(Compare.lease(output.bytes_of(key), relation, _number(number)))
        case ["if", "value", key, relation, value]:
            given = output.bytes_of(value, "value")
            compares.append(Compare.value(output.bytes_of(key), relation, given))
        case [("then" | "else") as branch, "put", key, value, *under]:
            lease = _lease(under)
            data = output.bytes_of(value, "value")
            branches[branch].append(Operation.put(output.bytes_of(key), data, lease=lease))
        case [("then" | "else") as branch, "get", key]:
            branches[branch].append(Operation.get(output.bytes_of(key)))
        case [("then" | "else") as branch, "delete", key]:
            branches[branch].append(Operation.delete(output.bytes_of(key)))
        case _:
            raise ValueError("it is neither a comparison nor an operation")


def _lease(words: list[str]) -> int:
    """Return the lease that the words behind a put name, 0 without any. Raises ``ValueError``."""
    match words:
        case []:
            return 0
        case ["lease", number] if 0 < (lease := _number(number)) <= LEASE_MAX:
            return lease
    raise ValueError(f"behind a put there may be lease and its number, from 1 to {LEASE_MAX}")


def _number(text: str) -> int:
    if not (text.isdecimal() and len(text) <= len(str(LONG_MAX))):
        raise ValueError(f"{text!r} is not a number")
    return int(text)
