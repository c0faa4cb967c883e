"""Commands that last: watch, lock, elect, observe."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, final

import click
import trio

from lanemq.local import print_line

from ..._tasks import open_quiet_nursery
from ...admin.cli.command._seconds import Seconds
from .._lock import Lock
from .._numbers import TTL_S_MAX
from .._store import KeyValueStore
from ..requests._errors import LockLost, LockNotAcquired
from ._command import EXIT_NO, KINDS, Output, change_value, entry_value, kv_command
from ._positions import Positions

LOOK_S = 0.2


@kv_command("watch")
@click.argument("prefix", default="")
@click.option("--key", help="Of this key alone.")
@click.option("--previous", is_flag=True, help="Print the value before each change, too.")
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
    key: str | None,
    previous: bool,
    position: tuple[int, ...] | None,
    count: int | None,
) -> int:
    """Print the changes under a prefix as they come: position, kind, key, and the value put.

    Of several partitions the position is one of the key's: PARTITION/POSITION. With --previous
    the value that was there before is the last word of a line.
    """
    if key is not None and prefix:
        raise click.UsageError("a watch is of a PREFIX or of a --key, not of both")
    seen = 0
    changes = store.watch(
        output.bytes_of(prefix, "prefix"),
        key=None if key is None else output.bytes_of(key),
        position=position,
        previous=previous,
    )
    async for change in changes:
        of_several = isinstance(changes.position, tuple)
        before = change.previous
        value = change_value(change, of_several=of_several)
        if previous:
            value["previous"] = None if before is None else entry_value(before)
        output.value(value)
        at = (
            b"%d/%d" % (change.partition, change.position)
            if of_several
            else b"%d" % change.position
        )
        head = b"%s %s" % (at, KINDS[change.kind].encode())
        values = (change.value, before.value if before is not None else None)
        shown = (output.written(one) for one in values if one is not None)
        output.line(head, output.written_key(change.key), *shown)
        seen += 1
        if seen == count:
            break
    return 0


COMMAND: Final = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
TTL: Final = click.option(
    "--ttl",
    "ttl_s",
    type=Seconds(most_s=TTL_S_MAX),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
)
WAIT: Final = click.option(
    "--wait",
    "wait_s",
    type=Seconds(zero=True, endless=True),
    metavar="SECONDS",
    help="0: try once.  [default: for ever]",
)


@kv_command("lock")
@click.argument("key")
@COMMAND
@TTL
@WAIT
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
    return await _run(store.lock(output.bytes_of(key), ttl_s=ttl_s, wait_s=wait_s), command)


@kv_command("elect")
@click.argument("name")
@COMMAND
@click.option("--owner", default="", help="What others see of the leader.  [default: nothing]")
@TTL
@WAIT
async def elect(
    store: KeyValueStore,
    output: Output,
    *,
    name: str,
    command: tuple[str, ...],
    owner: str,
    ttl_s: float,
    wait_s: float | None,
) -> int:
    """Run a command while being the leader of NAME, as `elect NAME -- COMMAND ...`.

    It is as for lock, of which this is the one whose key is leader/NAME; `observe NAME` prints
    who leads.
    """
    lead = store.leader(name, ttl_s=ttl_s, wait_s=wait_s, owner=output.bytes_of(owner, "owner"))
    return await _run(lead, command)


@kv_command("observe")
@click.argument("name")
@click.option("--count", type=click.IntRange(min=1), help="Number of leaders after which to end.")
async def observe(store: KeyValueStore, output: Output, *, name: str, count: int | None) -> int:
    """Print the leaders of NAME, the present one and then each that follows: fencing number and
    owner.

    The number is 0, without an owner, while there is none.
    """
    seen = 0
    async for leader in store.observe(name):
        output.value({"owner": leader.owner, "fencing": leader.fencing})
        owner = () if leader.owner is None else (output.written(leader.owner),)
        output.line(b"%d" % leader.fencing, *owner)
        seen += 1
        if seen == count:
            break
    return 0


async def _run(lock: AbstractAsyncContextManager[Lock], command: tuple[str, ...]) -> int:
    """Run a command while holding a lock; return its status."""
    work = _Work(command)
    async with open_quiet_nursery() as nursery:
        with trio.open_signal_receiver(*_signals()) as signals:
            nursery.start_soon(work.take, signals, nursery.cancel_scope)
            try:
                async with lock as held:
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
