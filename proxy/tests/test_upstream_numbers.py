"""Numbers of a proxy's writes: turns come in their order, and one freed place wakes one write."""

import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.gateway.kv._numbers import taken
from lanemq.testkit.reading_time import slowness, time_s
from lanemq.wire.kv import WriteTurn, WriteWindow


async def test_writes_that_wait_get_their_numbers_one_for_each_freed_place() -> None:
    window, came, steps = WriteWindow(2), list[int](), 0
    leave = [trio.Event() for _ in range(20)]
    scopes = [trio.CancelScope() for _ in range(20)]

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += 1

    async def write(index: int) -> None:
        with scopes[index]:
            async with taken(window):
                came.append(index)
                await leave[index].wait()

    async with trio.open_nursery() as nursery:
        for index in range(20):
            nursery.start_soon(write, index)
            await wait_all_tasks_blocked()
        assert came == [0, 1]
        trio.lowlevel.add_instrument(instrument := Steps())
        leave[0].set()
        await wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(instrument)
        assert came == [0, 1, 2]
        assert steps < 10, "only one of those that wait was woken"
        scopes[3].cancel()
        await wait_all_tasks_blocked()
        leave[4].set()
        leave[1].set()
        await wait_all_tasks_blocked()
        assert came == [0, 1, 2, 4], "the oldest one counts"
        async with taken(window, is_besides=True):
            assert came == [0, 1, 2, 4], "the oldest one counts"
        for event in leave:
            event.set()
    assert sorted(came) == [0, 1, 2, *range(4, 20)]
    assert window.waits == window._next


def test_writes_that_give_up_behind_many_others_cost_the_same_as_the_first_ones() -> None:
    window, numbers = WriteWindow(1), list[int]()

    def enter() -> WriteTurn:
        turn = WriteTurn(lambda: numbers.append(turn.number))
        window.enter(turn)
        return turn

    def give_up(count: int) -> None:
        for turn in [enter() for _ in range(count)]:
            window.leave(turn)

    def go_on(count: int) -> None:
        for _ in range(count):
            window.leave(waiting.pop())

    waiting = [enter() for _ in range(60_000)]
    assert time_s(give_up, 512) < 0.01 * slowness()
    waiting.reverse()
    go_on(50_000)  # those that are gone are not looked at again
    assert time_s(go_on, 1000) < 0.01 * slowness()
    assert numbers == [*range(2, len(numbers) + 2)]
