"""The index of timers: nothing comes early, nothing is lost, and a crash repeats little."""

import random
import struct
from dataclasses import dataclass

import pytest
from trio.testing import MockClock

from lanemq.storage.timer._layouts import UNIT_BYTES
from lanemq.storage.timer._shape import TimerShape
from lanemq.storage.timer._timers import Timers
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.testkit.storage.disk import Crash, SimulatedFiles
from lanemq.testkit.storage.stores import ROOT, START_MS
from lanemq.wire import SystemTopic
from lanemq.wire.message import StoredMessage

SHAPE = TimerShape(slots=128, log_file_bytes=UNIT_BYTES * 7 + 20, roll_slots=40)


@dataclass
class Stored:
    """The part of a stored message that the index looks at."""

    queue_offset: int
    size_bytes: int
    due_ms: int
    topic: str = SystemTopic.TIMER
    recalls: bool = False


class Machine:
    """An index over a queue in memory: positions are 100 times the offset, plus 1000."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.queue: list[Stored] = []
        self.now_ms = START_MS
        self.delivered: list[int] = []
        """Queue offsets, those stored again left out."""
        self.early: list[int] = []

    def open(self, shape: TimerShape = SHAPE) -> None:
        self.timers = Timers(
            self.files, ROOT, shape, message_at=self._message_at, clock_ms=lambda: self.now_ms
        )
        self.timers.load((0, len(self.queue)))

    def _message_at(self, position: int) -> StoredMessage | None:
        offset, rest = divmod(position - 1000, 100)
        if rest or not 0 <= offset < len(self.queue):
            return None
        return self.queue[offset]  # type: ignore[return-value]

    def send(self, due_ms: int, *, recalls: bool = False) -> None:
        self.queue.append(Stored(len(self.queue), 77, due_ms, recalls=recalls))

    def index(self) -> None:
        while self.timers.next_offset < len(self.queue):
            offset = self.timers.next_offset
            message = self.queue[offset]
            out_ms = (message.due_ms - 1) // 1000 * 1000
            added = self.timers.add(
                log_position=1000 + 100 * offset,
                message_bytes=77,
                topic_hash=1,
                out_ms=out_ms,
                due_ms=message.due_ms,
                recalls=message.recalls,
                now_ms=self.now_ms,
            )
            if not added:
                return

    def run(self, until_ms: int | None = None, *, batch: int = 3, limit: int = 1 << 30) -> None:
        """Do what is due, as the broker's task does it."""
        if until_ms is None or until_ms >= self.now_ms:
            self.index()
        self.now_ms = until_ms or self.now_ms
        for _ in range(limit):
            while self.timers.go_back(self.now_ms):
                pass
            self.index()
            if self.timers.advance(self.now_ms):
                continue
            taken = self.timers.delivery.take(self.now_ms, batch)
            if not taken:
                return
            for one in taken:
                offset = (one.log_position - 1000) // 100
                if self._message_at(one.log_position) is None:
                    continue  # as a message that is no longer in the log
                if one.rolls:
                    self.send(self.queue[offset].due_ms)
                    continue
                self.delivered.append(offset)
                if self.queue[offset].due_ms > self.now_ms:
                    self.early.append(offset)
            self.timers.delivery.delivered(taken, len(taken))

    async def flush(self) -> None:
        await self.timers.flush(_nothing)

    def dues(self) -> list[int]:
        return [self.queue[offset].due_ms for offset in self.delivered]


async def _nothing() -> None:
    pass


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.open()
    return machine


def test_messages_come_in_the_order_of_their_due_times(machine: Machine) -> None:
    for after_ms in (2500, 1, 999, 2000, 1000, 1001, 2999, 30_000):
        machine.send(START_MS + after_ms)
    machine.run(START_MS + 1000)
    assert machine.dues() == [START_MS + after_ms for after_ms in (1, 999, 1000)]
    machine.run(START_MS + 30_000)
    assert machine.dues() == sorted(message.due_ms for message in machine.queue)
    assert (machine.timers.pending, machine.early) == (0, [])
    assert machine.timers.wake_ms() is None


def test_the_next_step_is_known(machine: Machine) -> None:
    assert machine.timers.wake_ms() is None
    machine.send(START_MS + 5500)
    machine.run()
    assert machine.timers.wake_ms() == START_MS + 5001
    machine.run(START_MS + 5001)
    assert machine.timers.wake_ms() == START_MS + 5500


def test_a_late_message_comes_with_what_is_delivered_now(machine: Machine) -> None:
    machine.send(START_MS + 1500)
    machine.send(START_MS + 1900)
    machine.run(START_MS + 1600)
    machine.send(START_MS + 100)
    machine.send(START_MS + 1550)
    machine.run()
    assert machine.delivered == [0, 2, 3]
    machine.run(START_MS + 2000)
    assert machine.delivered == [0, 2, 3, 1]


def test_what_waits_long_is_stored_anew_until_it_is_near(machine: Machine) -> None:
    due_ms = START_MS + 150_500
    machine.send(due_ms)
    for second in range(150):
        machine.run(START_MS + second * 1000)
    assert (machine.delivered, len(machine.queue)) == ([], 4)
    machine.run(due_ms)
    assert machine.dues() == [due_ms]


def test_a_recall_is_given_before_what_it_recalls(machine: Machine) -> None:
    machine.send(START_MS + 1500)
    machine.send(START_MS + 1300, recalls=True)
    machine.index()
    machine.now_ms = START_MS + 1500
    while machine.timers.advance(machine.now_ms):
        pass
    assert machine.timers.delivery.recalls(9) == [(1100, 77)]
    assert [one.log_position for one in machine.timers.delivery.take(machine.now_ms, 9)] == [1000]


def test_no_step_reads_all_of_very_many_timers_of_one_time(machine: Machine) -> None:
    due_ms = machine.now_ms + 5000
    for _ in range(5000):
        machine.send(due_ms)
    machine.index()
    machine.now_ms = due_ms + 1000
    most, goes_on = 0, True
    while goes_on:
        with calls_of_this_thread() as calls:
            goes_on = machine.timers.advance(machine.now_ms)
        most = max(most, calls.count)
    assert most <= 30_000  # three milliseconds
    machine.run()
    assert machine.delivered == list(range(5000))


def test_a_slot_of_the_turn_before_is_delivered_first(machine: Machine) -> None:
    machine.send(START_MS + 1500)
    machine.run()
    machine.now_ms += SHAPE.slots * 1000
    machine.send(machine.now_ms + 1500)
    machine.index()
    assert machine.timers.next_offset == 1  # its slot is in use
    machine.run(machine.now_ms + 2001)
    assert machine.delivered == [0, 1]


async def test_the_files_are_those_of_5_3_3(machine: Machine, autojump_clock: MockClock) -> None:
    for after_ms in (5500, 5700, 8000):
        machine.send(START_MS + after_ms)
    machine.run()
    await machine.flush()
    wheel = machine.files.read_all(ROOT / "timerwheel") or b""
    log = machine.files.read_all(ROOT / "timerlog" / f"{0:020}") or b""
    check = machine.files.read_all(ROOT / "config" / "timercheck") or b""
    assert (len(wheel), len(check)) == (128 * 32, 4096)
    seconds = START_MS // 1000
    index = (seconds + 5) % 128
    assert struct.unpack_from(">qqqii", wheel, index * 32) == (seconds + 5, 0, 52, 2, 0)
    unit = struct.unpack_from(">iqiqiqii", log, 52)
    assert unit == (52, 0, 1, START_MS, 5000, 1100, 77, 1)
    assert struct.unpack_from(">iqiqi", log, 104) == (52, -1, 1, START_MS, 7000)
    assert struct.unpack_from(">qqqq", check) == (START_MS, 156, 3, 3)


async def test_a_file_of_the_log_ends_as_those_of_5_3_3(
    machine: Machine, autojump_clock: MockClock
) -> None:
    for number in range(9):
        machine.send(START_MS + 5000 + number)
    machine.run()
    names = [entry.name for entry in machine.files.entries(ROOT / "timerlog")]
    assert names == [f"{0:020}", f"{SHAPE.log_file_bytes:020}"]
    log = machine.files.read_all(ROOT / "timerlog" / names[0]) or b""
    assert struct.unpack_from(">iq", log, 7 * 52) == (20, 0)
    assert log[7 * 52 + 12 : 7 * 52 + 16] == bytes.fromhex("cbd43194")
    machine.run(START_MS + 9000)
    assert machine.delivered == list(range(9))


async def test_files_go_once_their_messages_are_gone(
    machine: Machine, autojump_clock: MockClock
) -> None:
    for number in range(20):
        machine.send(START_MS + 5000 + number)
    machine.run()
    assert machine.timers.remove_unneeded(1600) == 0
    assert machine.timers.remove_unneeded(1601) == 1
    assert machine.timers.remove_unneeded(1 << 40) == 1
    assert len(machine.files.entries(ROOT / "timerlog")) == 1


async def test_a_clean_stop_repeats_nothing(machine: Machine, autojump_clock: MockClock) -> None:
    for number in range(30):
        machine.send(START_MS + 1000 + number * 100)
    machine.run(START_MS + 2440, batch=1)
    count = len(machine.delivered)
    await machine.flush()
    machine.open()
    assert machine.timers.pending > 0
    machine.send(START_MS + 2100)  # late, for the slot that is half delivered
    machine.run()
    assert machine.delivered[count:] == [30]
    machine.run(START_MS + 60_000)
    assert sorted(machine.delivered) == list(range(31))


async def test_without_the_files_all_is_indexed_anew(
    machine: Machine, autojump_clock: MockClock
) -> None:
    for number in range(5):
        machine.send(START_MS + 9000 + number)
    machine.run()
    await machine.flush()
    machine.files.remove(ROOT / "timerwheel")
    machine.open()
    machine.run(START_MS + 10_000)
    assert machine.delivered == list(range(5))


async def test_files_that_belong_to_another_queue_are_left_out(
    machine: Machine, autojump_clock: MockClock
) -> None:
    for number in range(5):
        machine.send(START_MS + 9000 + number)
    machine.run()
    await machine.flush()
    del machine.queue[:]
    machine.send(START_MS + 5000)
    machine.open()
    machine.run(START_MS + 10_000)
    assert machine.delivered == [0]


@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("seed", range(40))
async def test_a_crash_loses_nothing_and_repeats_what_was_delivered_since_the_last_flush(
    how: str, seed: int, autojump_clock: MockClock
) -> None:
    rng = random.Random(seed)
    machine = Machine()
    machine.files = SimulatedFiles(seed=seed)
    machine.open()
    flushed: set[int] = set()
    repeated_at_most: set[int] = set()
    for _ in range(6):
        machine.files.crash_after = rng.randint(0, 60)
        try:
            for _ in range(rng.randint(1, 12)):
                for _ in range(rng.randint(0, 8)):
                    machine.send(machine.now_ms + rng.randint(1, 30_000))
                machine.run(machine.now_ms + rng.randint(1, 3000), batch=rng.randint(1, 4))
                if rng.random() < 0.5:
                    delivered = set(machine.delivered)
                    await machine.flush()
                    flushed |= delivered
        except Crash:
            pass
        assert flushed <= set(machine.delivered)
        repeated_at_most |= set(machine.delivered) - flushed
        machine.files = machine.files.reboot(how)  # type: ignore[arg-type]
        machine.now_ms += rng.randint(0, 5000)
        machine.open()
    machine.run(machine.now_ms + 60_000)
    assert machine.early == []
    assert set(machine.delivered) == set(range(len(machine.queue)))
    again = {offset for offset in machine.delivered if machine.delivered.count(offset) > 1}
    assert again <= repeated_at_most


async def test_a_full_disk_indexes_nothing_by_halves(
    machine: Machine, autojump_clock: MockClock
) -> None:
    rng = random.Random(1)
    for _ in range(40):
        machine.send(machine.now_ms + rng.randint(1, 9000))
        machine.files.space_bytes = rng.randint(0, 60)
        try:
            machine.run()
        except OSError:
            machine.files.space_bytes = None
            machine.run()
    await machine.flush()
    machine.files = machine.files.reboot("power")
    machine.open()
    machine.run(START_MS + 10_000)
    assert sorted(machine.delivered) == list(range(40))


async def test_any_bytes_in_the_files_end_in_messages_or_in_words(
    autojump_clock: MockClock,
) -> None:
    """Bytes that a stranger wrote are no reason to hang, or to lose what is in the queue."""
    rng = random.Random(7)
    for name in ("timerwheel", "config/timercheck", f"timerlog/{0:020}"):
        for _ in range(20):
            machine = Machine()
            machine.open()
            for number in range(5):
                machine.send(START_MS + 9000 + number)
            machine.run()
            await machine.flush()
            data = bytearray(machine.files.read_all(ROOT / name) or b"")
            for _ in range(30):
                data[rng.randrange(min(len(data), 600))] = rng.randrange(256)
            machine.files.write_all(ROOT / name, bytes(data))
            machine.open()
            machine.run(START_MS + 20_000, limit=5000)
            assert machine.early == []


@pytest.mark.parametrize("pending_s", [0, 30])
def test_timers_follow_a_clock_that_is_set_back(machine: Machine, pending_s: int) -> None:
    """They wait no hour for the time that the clock showed before."""
    hour_ms = 60_000  # of this wheel, whose turn is 128 s
    machine.send(START_MS + 1500)
    if pending_s:
        machine.send(START_MS + pending_s * 1000)
    machine.run(START_MS + 3000)
    before = machine.dues()
    assert before == [START_MS + 1500]
    back_ms = START_MS + 3000 - hour_ms
    machine.send(back_ms + 2500)
    machine.run(back_ms)
    assert machine.dues() == before
    machine.run(back_ms + 2500)
    assert machine.dues() == [*before, back_ms + 2500]
    machine.run(START_MS + 40_000)  # right again: what was delivered stays so
    due = [START_MS + pending_s * 1000] if pending_s else []
    assert machine.dues() == [*before, back_ms + 2500, *due]
    assert (machine.timers.pending, machine.early) == (0, [])


@pytest.mark.parametrize("how", [None, "kill", "power"])
@pytest.mark.parametrize("seed", range(40))
async def test_a_clock_set_at_random_loses_and_hastens_nothing(
    how: str | None, seed: int, autojump_clock: MockClock
) -> None:
    """Nothing is repeated either, but by a crash."""
    rng = random.Random(seed)
    machine = Machine()
    machine.files = SimulatedFiles(seed=seed)
    machine.open()
    steps_ms = [-45_000, -2500, -900, 3000, 60_000, -400_000, 9_000_000, -8_000_000]
    for _ in range(8):
        machine.files.crash_after = None if how is None else rng.randint(0, 60)
        try:
            for _ in range(rng.randint(1, 12)):
                for _ in range(rng.randint(0, 8)):
                    machine.send(machine.now_ms + rng.randint(1, 30_000))
                machine.run(machine.now_ms + rng.randint(1, 3000), batch=rng.randint(1, 4))
                if rng.random() < 0.4:
                    machine.run(machine.now_ms + rng.choice(steps_ms), batch=rng.randint(1, 4))
                if rng.random() < 0.5:
                    await machine.flush()
        except Crash:
            pass
        if how is not None:
            machine.files = machine.files.reboot(how)  # type: ignore[arg-type]
            machine.now_ms += rng.choice([0, 2000, *steps_ms])
            machine.open()
    while machine.timers.pending or machine.timers.next_offset < len(machine.queue):
        machine.run(machine.now_ms + 20_000)
        assert machine.now_ms < max(one.due_ms for one in machine.queue) + 10_000_000
    assert machine.early == []
    waited = [one.due_ms for one in machine.queue]
    assert set(machine.dues()) == set(waited)
    if how is None:
        assert len(machine.delivered) == len(set(machine.delivered))
