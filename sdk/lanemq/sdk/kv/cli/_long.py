"""Commands that last: watch, lock."""

import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from typing import final

import click
import trio

from lanemq.local import print_line
from lanemq.wire import LONG_MAX

from ..._tasks import open_quiet_nursery
from ...admin.cli.command._seconds import Seconds
from .._lock import Lock
from .._numbers import TTL_S_MAX
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
        if not all(map(_is_position, parts)):
            self.fail(f"{value!r} is not a position, nor several joined by commas", param, ctx)
        return tuple(map(int, parts))


def _is_position(text: str) -> bool:
    is_number = text.isdecimal() and len(text) <= len(str(LONG_MAX))  # more takes long to read
    return is_number and int(text) <= LONG_MAX


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
        output.line(head, output.written_key(change.key), *value)
        seen += 1
        if seen == count:
            break
    return 0


@kv_command("lock")
@click.argument("key")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--ttl",
    "ttl_s",
    type=Seconds(most_s=TTL_S_MAX),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
)
@click.option(
    "--wait",
    "wait_s",
    type=Seconds(zero=True, endless=True),
    metavar="SECONDS",
    help="0: try once.  [default: for ever]",
)
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
    terminated. SIGTERM, SIGINT and SIGHUP are passed on to it, and the lock is held until it ends.
    """
    work = _Work(command)
    async with open_quiet_nursery() as nursery:
        with trio.open_signal_receiver(*_signals()) as signals:
            nursery.start_soon(work.take, signals, nursery.cancel_scope)
            try:
                async with store.lock(output.bytes_of(key), ttl_s=ttl_s, wait_s=wait_s) as held:
                    await work.run(held)
            except (LockNotAcquired, LockLost) as error:
                print_line(str(error), err=True)
                work.status = EXIT_NO
            nursery.cancel_scope.cancel()
    return work.status


@final
class _Work:
    """The command, and the signals that come for it."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: trio.Process | None = None
        self.status = EXIT_NO

    async def take(self, signals: AsyncIterator[int], waiting: trio.CancelScope) -> None:
        """Pass signals on to the command, whose end they may be; before it runs they are ours."""
        async for number in signals:
            if self._process is None:
                self.status = 128 + number
                waiting.cancel()
                return
            self._process.send_signal(number)  # to one that has ended it does nothing

    async def run(self, held: Lock) -> None:
        """Run it to its end, or until the lock is lost."""
        async with trio.open_nursery() as nursery:

            async def watch_lock() -> None:
                while held.is_held:  # noqa: ASYNC110 - time alone can end it
                    await trio.sleep(LOOK_S)
                nursery.cancel_scope.cancel()  # which terminates the command

            environment = {**os.environ, "LANEMQ_FENCING": str(held.fencing)}
            start = partial(trio.run_process, self._command, check=False, env=environment)
            self._process = await nursery.start(start)
            nursery.start_soon(watch_lock)
            status = await self._process.wait()
            self.status = status if status >= 0 else 128 - status
            nursery.cancel_scope.cancel()


def _signals() -> list[signal.Signals]:
    """Return the signals that end a command, without those that are ignored, as under nohup."""
    others = [getattr(signal, name, None) for name in ("SIGINT", "SIGHUP")]
    taken = [one for one in others if one and signal.getsignal(one) is not signal.SIG_IGN]
    return [signal.SIGTERM, *taken]
