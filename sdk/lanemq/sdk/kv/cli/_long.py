"""Commands that last: watch, lock."""

import os
import subprocess
from typing import final

import click
import trio

from .._lock import Lock
from .._store import KeyValueStore
from ..requests._errors import LockLost, LockNotAcquired
from ._command import EXIT_NO, KINDS, Output, change_value, kv_command

LOOK_S = 0.2


@final
class Positions(click.ParamType[tuple[int, ...]]):
    """Positions, joined by commas."""

    name = "N,N,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read them."""
        parts = str(value).split(",")
        if not all(part.isdecimal() for part in parts):
            self.fail(f"{value!r} is not a position, nor several joined by commas", param, ctx)
        return tuple(map(int, parts))


@kv_command("watch")
@click.argument("prefix", default="")
@click.option(
    "--position",
    type=Positions(),
    help="Go on from here: N, or for several partitions N,N,... [default: now]",
)
@click.option("--count", type=click.IntRange(min=1), help="Number of changes after which to end.")
async def watch(
    store: KeyValueStore,
    output: Output,
    *,
    prefix: str,
    position: tuple[int, ...] | None,
    count: int | None,
) -> int:
    """Print the changes under a prefix as they come: position, kind, key, and the value put.

    Of several partitions the position is one of the key's: PARTITION/POSITION.
    """
    seen = 0
    changes = store.watch(output.bytes_of(prefix, "prefix"), position=position)
    async for change in changes:
        of_several = isinstance(changes.position, tuple)
        output.value(change_value(change, of_several=of_several))
        at = (
            b"%d/%d" % (change.partition, change.position)
            if of_several
            else b"%d" % change.position
        )
        head = b"%s %s" % (at, KINDS[change.kind].encode())
        value = () if change.value is None else (output.written(change.value),)
        output.line(head, output.written(change.key), *value)
        seen += 1
        if seen == count:
            break
    return 0


@kv_command("lock")
@click.argument("key")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--ttl", "ttl_s", default=15.0, show_default=True, metavar="SECONDS")
@click.option("--wait", "wait_s", type=float, metavar="SECONDS", help="[default: for ever]")
async def lock(
    store: KeyValueStore,
    output: Output,
    *,
    key: str,
    command: tuple[str, ...],
    ttl_s: float,
    wait_s: float | None,
) -> int:
    """Run a command while holding a lock, as `lock KEY -- COMMAND ...`; its status is ours.

    The command finds the lock's fencing number in LANEMQ_FENCING. If the lock is lost it is
    terminated.
    """
    try:
        async with store.lock(output.bytes_of(key), ttl_s=ttl_s, wait_s=wait_s) as held:
            return await _run(command, held)
    except (LockNotAcquired, LockLost) as error:
        click.echo(str(error), err=True)
        return EXIT_NO


async def _run(command: tuple[str, ...], held: Lock) -> int:
    status = EXIT_NO
    async with trio.open_nursery() as nursery:

        async def watch_lock() -> None:
            while held.is_held:  # noqa: ASYNC110 - time alone can end it
                await trio.sleep(LOOK_S)
            nursery.cancel_scope.cancel()  # which terminates the command

        nursery.start_soon(watch_lock)
        done: subprocess.CompletedProcess[bytes] = await trio.run_process(
            command, check=False, env={**os.environ, "LANEMQ_FENCING": str(held.fencing)}
        )
        status = done.returncode
        nursery.cancel_scope.cancel()
    return status if status >= 0 else 128 - status
