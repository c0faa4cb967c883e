"""The recalls of one second: as many as peers send, in little memory and in time that is linear."""

import gc
import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.timer._digests import DIGEST_BYTES, Digests
from lanemq.storage.timer._layouts import MAGIC_DEFAULT, MAGIC_DELETE, NONE
from lanemq.storage.timer._open_slot import OpenSlot
from lanemq.storage.timer._timer_log import TimerLog, TimerUnit
from lanemq.testkit.reading_time import slowness, time_s

RECALLS, BATCH = 100_000, 64
STEP_S = 0.0001
BYTES_MAX = 40
"""Bytes of memory for each recall; a list and then a set took 40 and 90."""

FEW = st.binary(min_size=2, max_size=2).map(lambda data: data * (DIGEST_BYTES // 2))


@given(st.lists(st.tuples(st.booleans(), FEW)))
def test_a_set_of_digests_has_what_was_added(steps: list[tuple[bool, bytes]]) -> None:
    """Digests that repeat are also found across the border of two."""
    digests, model = Digests(), set[bytes]()
    for adds, digest in steps:
        assert (digest in digests) == (digest in model)
        if adds:
            digests.add(digest)
            model.add(digest)
        assert len(digests) == len(model)
        assert bool(digests) == bool(model)


def slot_with(recalls: int) -> OpenSlot:
    slot = OpenSlot(TimerLog(None), 0, NONE, 1000, None)  # type: ignore[arg-type] # reads nothing
    unit = TimerUnit(NONE, MAGIC_DEFAULT | MAGIC_DELETE, 0, 0, 0, 300, 0)
    for number in range(recalls):
        slot.add(number * 52, unit)
    return slot


def take_all(slot: OpenSlot) -> int:
    taken, random_bytes = 0, random.Random(1).randbytes
    while some := slot.take_recalls(BATCH):
        for _ in some:
            slot.recalled.add(random_bytes(DIGEST_BYTES))
        taken += len(some)
    return taken


def test_recalls_of_one_second_take_little_memory() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        slot = slot_with(RECALLS)
        waiting, _ = tracemalloc.get_traced_memory()
        assert take_all(slot) == len(slot.recalled) == RECALLS
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(waiting, kept) <= BYTES_MAX * RECALLS
    assert most <= 2 * BYTES_MAX * RECALLS
    assert slot.take_recalls(BATCH) == []


def test_a_step_that_takes_recalls_is_as_short_as_with_few() -> None:
    """It copied all that were left: 0.6 ms for each of 6,000 steps of 400,000 recalls."""

    def step_s(slot: OpenSlot) -> float:
        return min(time_s(slot.take_recalls, BATCH) for _ in range(5))

    few, many = slot_with(40 * BATCH), slot_with(4 * RECALLS)
    assert step_s(many) <= 10 * step_s(few) + STEP_S * slowness()
