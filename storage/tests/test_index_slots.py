"""The slots of an index file reach it as they were set, in few writes."""

from pathlib import Path
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.index._slots import PAGE_SLOTS, RUN_PAGES, SlotTable
from lanemq.testkit.storage.disk import SimulatedFile, SimulatedFiles

BEGIN = 40
SLOTS = 5 * PAGE_SLOTS + 7  # the last page is a short one
HASHES = st.lists(st.integers(0, 3 * SLOTS), max_size=30)


def new_file(slots: int) -> SimulatedFile:
    return SimulatedFiles().create(Path("/store/index/1"), BEGIN + 4 * slots)


def numbers_in(file: SimulatedFile, slots: int) -> tuple[int, ...]:
    return Struct(f">{slots}i").unpack(file.read(BEGIN, 4 * slots))


@given(st.lists(st.tuples(HASHES, st.booleans()), max_size=6))
def test_the_newest_entry_of_each_slot_is_kept_and_the_one_before_it_told(
    turns: list[tuple[list[int], bool]],
) -> None:
    file = new_file(SLOTS)
    table = SlotTable(file, slots=SLOTS, begin=BEGIN, is_new=True)
    model, number = dict[int, int](), 1
    for hashes, is_read_again in turns:
        wanted = []
        for entry, hash_ in enumerate(hashes, number):
            wanted.append(model.get(hash_ % SLOTS, 0))
            model[hash_ % SLOTS] = entry
        assert table.link(hashes, number) == wanted
        number += len(hashes)
        assert [table.newest(slot) for slot in model] == list(model.values())
        if is_read_again:
            table.write_out()
            table = SlotTable(file, slots=SLOTS, begin=BEGIN, is_new=False)
    table.write_out()
    assert numbers_in(file, SLOTS) == tuple(model.get(slot, 0) for slot in range(SLOTS))
    table.clear()
    assert table.link([0], 1) == [0]
    table.write_out()
    assert numbers_in(file, SLOTS) == (1, *(0 for _ in range(SLOTS - 1)))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reads and writes of simulated files."""
    calls: list[str] = []
    for name in ("read", "write"):
        real = getattr(SimulatedFile, name)

        def call(*arguments: object, name: str = name, real: object = real) -> object:
            calls.append(name)
            return real(*arguments)  # type: ignore[operator] # a method

        monkeypatch.setattr(SimulatedFile, name, call)
    return calls


def test_pages_that_lie_together_are_written_together_and_new_ones_not_read(
    counted: list[str],
) -> None:
    pages = 2 * RUN_PAGES
    slots = (pages + 2) * PAGE_SLOTS
    table = SlotTable(new_file(slots), slots=slots, begin=BEGIN, is_new=True)
    table.link(range(0, pages * PAGE_SLOTS, PAGE_SLOTS), 1)
    table.link([slots - 1], pages + 1)
    table.write_out()
    assert counted == ["write"] * 3
    table.write_out()
    assert counted == ["write"] * 3
