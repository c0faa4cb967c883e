"""Commands that run as tasks: who gives one again learns how far it is, or its end."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, Protocol, TypeVar, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.wire.bodies import BrokerDrain, LostMessages, QueueMove

from ._context import MoveRefused

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

WAIT_S: Final = 2.0
"""Seconds that an answer waits for the end; who asked asks again."""
COMMANDS_MAX: Final = 64
CALLED_OFF: Final = "the move was called off; give the command again to begin it again"

Found = QueueMove | BrokerDrain | LostMessages


class Command(Protocol):
    """A move, a drain, or a look for what is lost."""

    async def run(self) -> Found:
        """Carry it out. Raises ``MoveRefused``."""

    def progress(self) -> Found:
        """Return how far it is."""


C = TypeVar("C", bound=Command)


@define(eq=False)
class Running(Generic[C]):
    """A command, and its task."""

    command: C
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    done: trio.Event = field(factory=trio.Event)
    ended_s: float = 0.0
    end: Found | MoveRefused = field(
        factory=lambda: MoveRefused("the command has failed; the log says why")
    )


@final
class Commands(Generic[C]):
    """The commands of one kind, each under the key of what it is about."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        kept_s: float,
        first: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
        still_holds: Callable[[Found], bool] = lambda _: True,
    ) -> None:
        """``first`` is called before a command runs.

        An end that nobody has waited for is kept for ``kept_s``; later, and where what was found
        holds no longer, the command runs once more.
        """
        self._nursery = nursery
        self._kept_s = kept_s
        self._first = first
        self._still_holds = still_holds
        self._running: dict[Hashable, Running[C]] = {}

    def running(self) -> list[Running[C]]:
        """Return those that have not ended."""
        return [one for one in self._running.values() if not one.done.is_set()]

    async def ask(self, key: Hashable, make: Callable[[], C]) -> Found:
        """Begin a command that does not run yet, and return its end, or after ``WAIT_S`` how far
        it is. Raises ``MoveRefused``."""
        kept_from_s = trio.current_time() - self._kept_s
        for name, one in list(self._running.items()):
            if one.done.is_set() and one.ended_s <= kept_from_s:
                del self._running[name]
        running = self._running.get(key)
        if running is not None and running.done.is_set() and not self._is_told(running.end):
            running = None
        if running is None:
            if len(self._running.keys() - {key}) >= COMMANDS_MAX:
                raise MoveRefused(f"{COMMANDS_MAX} such commands run at this proxy: try again")
            running = self._running[key] = Running(make())
            self._nursery.start_soon(self._run, key, running)
        with trio.move_on_after(WAIT_S):
            await running.done.wait()
        if not running.done.is_set():
            return running.command.progress()
        if self._running.get(key) is running:
            del self._running[key]
        if isinstance(running.end, MoveRefused):
            raise running.end
        return running.end

    def _is_told(self, end: Found | MoveRefused) -> bool:
        """Return whether a kept end is told to who asks again."""
        return isinstance(end, MoveRefused) or self._still_holds(end)

    async def _run(self, key: Hashable, running: Running[Any]) -> None:
        try:
            with running.scope:
                await self._first()
                running.end = await running.command.run()
            if running.scope.cancelled_caught:
                running.end = MoveRefused(CALLED_OFF)
        except MoveRefused as error:
            running.end = error
        except Exception:  # a bug of ours; the proxy goes on
            LOGGER.exception("the command for %s failed", key)
        finally:
            running.ended_s = trio.current_time()
            running.done.set()
