"""Moves and drains that run as tasks of a proxy."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.gateway.moves._commands import COMMANDS_MAX, Commands
from lanemq.proxy.gateway.moves._context import MoveRefused
from lanemq.wire.bodies import BrokerDrain


class Waiting:
    """A command that waits until it may end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = trio.Event()
        self.error = error

    def progress(self) -> BrokerDrain:
        return BrokerDrain("b", "draining")

    async def run(self) -> BrokerDrain:
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return BrokerDrain("b", "drained")


async def test_no_more_commands_run_than_there_is_room_for(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        commands: Commands[Waiting] = Commands(nursery, kept_s=0.0)
        first = Waiting()
        async with trio.open_nursery() as asking:
            asking.start_soon(commands.ask, 0, lambda: first)
            for key in range(1, COMMANDS_MAX):
                asking.start_soon(commands.ask, key, Waiting)
        assert len(commands.running()) == COMMANDS_MAX
        with pytest.raises(MoveRefused, match="64 such commands run"):
            await commands.ask(COMMANDS_MAX, Waiting)
        # Who asks of one that runs gets its end, and leaves its place to another one.
        first.may_end.set()
        assert (await commands.ask(0, Waiting)).state == "drained"
        assert (await commands.ask(COMMANDS_MAX, Waiting)).state == "draining"
        nursery.cancel_scope.cancel()


async def test_a_command_begins_behind_a_look_at_the_cluster(autojump_clock: MockClock) -> None:
    """A broker that has just come back is known to the command that is given next."""
    looks = list[float]()

    async def look() -> None:
        await trio.sleep(1.0)
        looks.append(trio.current_time())

    class Looking(Waiting):
        async def run(self) -> BrokerDrain:
            assert len(looks) == 1
            return await super().run()

    begin_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        commands: Commands[Waiting] = Commands(nursery, kept_s=0.0, first=look)
        command = Looking()
        for _ in range(3):
            assert (await commands.ask("b", lambda: command)).state == "draining"
        command.may_end.set()
        assert (await commands.ask("b", Waiting)).state == "drained"
        assert looks == [begin_s + 1.0]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("kept_s", "later"), [(60.0, "drained"), (0.0, "draining")])
async def test_an_end_that_nobody_waited_for_is_kept_as_long_as_it_holds(
    kept_s: float, later: str, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        commands: Commands[Waiting] = Commands(nursery, kept_s=kept_s)
        command = Waiting()
        assert (await commands.ask("b", lambda: command)).state == "draining"
        command.may_end.set()
        await trio.sleep(59.0)
        assert (await commands.ask("b", Waiting)).state == later
        assert (await commands.ask("b", Waiting)).state == "draining"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("still_holds", [True, False])
async def test_an_end_that_holds_no_longer_is_not_told(
    still_holds: bool, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        commands: Commands[Waiting] = Commands(
            nursery, kept_s=60.0, still_holds=lambda found: still_holds
        )
        command = Waiting()
        assert (await commands.ask("b", lambda: command)).state == "draining"
        command.may_end.set()
        await trio.sleep(1.0)
        found = await commands.ask("b", Waiting)
        assert found.state == ("drained" if still_holds else "draining")
        # Refusals are told in any case: they say what has been tried.
        failing = Waiting(MoveRefused("no"))
        assert (await commands.ask("c", lambda: failing)).state == "draining"
        failing.may_end.set()
        await trio.sleep(1.0)
        with pytest.raises(MoveRefused, match="no"):
            await commands.ask("c", Waiting)
        nursery.cancel_scope.cancel()


async def test_a_command_that_fails_says_so_and_ends_no_other_one(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery:
        commands: Commands[Waiting] = Commands(nursery, kept_s=0.0)
        for error, why in ((ValueError("a bug"), "the log says why"), (MoveRefused("no"), "no")):
            failing = Waiting(error)
            failing.may_end.set()
            with pytest.raises(MoveRefused, match=why):
                await commands.ask("b", lambda one=failing: one)  # type: ignore[misc]
        assert "a bug" in caplog.text
        assert (await commands.ask("b", Waiting)).state == "draining"
        nursery.cancel_scope.cancel()
