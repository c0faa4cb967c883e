"""The comparison of queue files with rows: what it finds, and what it says."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage._layouts import BLANK_UNIT, UNIT_BYTES, pack_unit
from lanemq.storage.queues.rocks._diff import at_once, diff_queue
from lanemq.storage.queues.rocks._diff_report import (
    Difference,
    PlacedUnit,
    QueueDiff,
    diff_report,
)

BLANK = "blank"


@dataclass
class View:
    """Units by offset; ``BLANK`` is one of a message that is gone."""

    units: dict[int, int | str]
    min: int
    end: int

    def read(self, offset: int, count: int) -> bytes:
        data = b""
        for number in range(offset, offset + count):
            position = self.units.get(number)
            if position is None:
                break
            data += BLANK_UNIT if isinstance(position, str) else pack_unit(position, 100, 7)
        return data


def view(units: dict[int, int | str], *, begin: int | None = None) -> View:
    real = [offset for offset, unit in units.items() if unit != BLANK]
    end = max(units, default=-1) + 1
    return View(units, begin if begin is not None else min(real, default=end), end)


def unit(offset: int, position: int | None = None) -> PlacedUnit:
    return PlacedUnit(offset, position if position is not None else offset * 100, 100, 7)


def simple(offsets: range, *missing: int) -> dict[int, int | str]:
    return {offset: offset * 100 for offset in offsets if offset not in missing}


def diff(
    files: View, rows: View, *, check_from_ms: int = 0, committed: int | None = None
) -> QueueDiff:
    steps = diff_queue(
        "T",
        0,
        files=files,
        rows=rows,
        store_time_ms=lambda position: position // 100,  # the offset, but for moved ones
        check_from_ms=check_from_ms,
        committed=committed,
    )
    return at_once(steps)


def test_equal_queues_are_ready_and_safe() -> None:
    found = diff(view(simple(range(3, 10))), view(simple(range(3, 10))))
    assert found.is_ready
    assert found.is_safe_to_switch
    assert found.first_missing is None
    assert (found.files_first, found.files_last) == (unit(3), unit(9))
    assert (found.rows_first, found.rows_last) == (unit(3), unit(9))


def test_a_hole_is_named_by_its_first_offset() -> None:
    found = diff(view(simple(range(10))), view(simple(range(10), 5, 6)))
    assert not found.is_ready
    assert not found.is_safe_to_switch
    assert found.difference == Difference(5, unit(5), None)
    assert found.first_missing == 5


def test_rows_that_end_too_early_are_a_difference() -> None:
    found = diff(view(simple(range(10))), view(simple(range(8))))
    assert found.difference == Difference(8, unit(8), None)


def test_rows_that_go_further_than_the_files_are_none() -> None:
    """So it is after a time in which the files were not written."""
    assert diff(view(simple(range(8))), view(simple(range(10)))).is_safe_to_switch


def test_a_unit_of_another_message_is_a_difference() -> None:
    rows = view(simple(range(10)) | {4: 9_999})
    assert diff(view(simple(range(10))), rows).difference == Difference(4, unit(4), unit(4, 9_999))


def test_rows_that_begin_late_are_ready_but_not_safe_to_switch_to() -> None:
    found = diff(view(simple(range(10))), view(simple(range(4, 10))))
    assert found.is_ready
    assert found.kv_starts_at == 4
    assert found.first_missing == 0
    assert not found.is_safe_to_switch


def test_rows_that_begin_late_are_safe_where_every_group_is_further() -> None:
    files, rows = view(simple(range(10))), view(simple(range(4, 10)))
    assert diff(files, rows, committed=4).is_safe_to_switch
    assert not diff(files, rows, committed=3).is_safe_to_switch


def test_blanks_have_no_rows_and_are_not_missed() -> None:
    files = dict.fromkeys(range(5), BLANK) | simple(range(5, 12)) | {8: BLANK, 9: BLANK}
    found = diff(view(files), view(simple(range(5, 12), 8, 9)))
    assert found.is_safe_to_switch
    assert found.kv_starts_at is None
    assert found.files_first == unit(5)


def test_an_empty_database_is_not_ready() -> None:
    found = diff(view(simple(range(3, 10))), view({}))
    assert found.difference == Difference(3, unit(3), None)
    assert not found.is_safe_to_switch
    assert found.rows_first is None


def test_an_empty_queue_is_ready() -> None:
    assert diff(view({}), view({})).is_safe_to_switch


def test_an_old_queue_is_ready_whatever_is_missing_and_yet_not_safe() -> None:
    found = diff(view(simple(range(10))), view({}), check_from_ms=50)
    assert found.is_ready
    assert found.older_difference == Difference(0, unit(0), None)
    assert not found.is_safe_to_switch


def test_what_is_older_than_asked_for_does_not_keep_a_queue_from_being_ready() -> None:
    files, rows = view(simple(range(10))), view(simple(range(10), 3))
    assert not diff(files, rows, check_from_ms=3).is_ready
    found = diff(files, rows, check_from_ms=4)
    assert found.is_ready
    assert found.older_difference == Difference(3, unit(3), None)
    assert found.first_missing == 3


def test_the_text_for_a_queue_is_the_one_the_reference_prints() -> None:
    found = diff(view(simple(range(1, 3))), view({}))
    assert found.describe() == (
        "[topic: T, queue:  0] \n"
        "  kvEarliest : null |  kvLatest : null \n"
        " fileEarliest: CqUnit{queueOffset=1, size=100, pos=100, batchNum=1, tagsCode=7,"
        " compactedOffset=0} | fileEarliest: CqUnit{queueOffset=2, size=100, pos=200,"
        " batchNum=1, tagsCode=7, compactedOffset=0} \n"
    )


def test_the_text_for_all_counts_topics() -> None:
    good = diff(view(simple(range(3))), view(simple(range(3))))
    bad = diff(view(simple(range(3))), view({}))
    report = diff_report([good])
    assert report.is_ready
    assert report.describe(5) == (
        "check all topic finish, all topic is ready, checkSize: 1, currentQueueNum: 5"
    )
    report = diff_report([good, bad])
    assert not report.is_ready
    assert not report.is_safe_to_switch
    assert report.describe() == "check all topic finish, success/all : 0/1, currentQueueNum: 1"


position = st.one_of(st.just(BLANK), st.integers(0, 3).map(lambda number: number * 100))


@given(
    st.lists(position, max_size=12),
    st.dictionaries(st.integers(0, 14), st.integers(0, 3).map(lambda number: number * 100)),
    st.integers(0, 12),
    st.integers(0, 4),
)
def test_the_comparison_finds_what_one_unit_after_the_other_does(
    units: list[int | str], row_units: dict[int, int], begin: int, check_from_ms: int
) -> None:
    files_units = dict(enumerate(sorted(units, key=lambda one: -1 if one == BLANK else int(one))))
    end = len(units)
    files = View(files_units, min(begin, end), end)
    rows = view(dict(row_units))
    found = diff(files, rows, check_from_ms=check_from_ms)

    def differs(offset: int) -> bool:
        ours = files_units[offset]
        return ours != BLANK and ours != row_units.get(offset)

    start = files.min if not row_units else max(files.min, rows.min)
    young = [
        offset
        for offset in range(files.min, end)
        if files_units[offset] != BLANK and int(files_units[offset]) // 100 >= check_from_ms
    ]
    checked = max(start, (min(young, default=end) if check_from_ms else files.min))
    expected = [offset for offset in range(checked, end) if differs(offset)]
    older = [offset for offset in range(start, min(checked, end)) if differs(offset)]
    assert found.is_ready == (not expected)
    if expected:
        assert found.difference is not None
        assert found.difference.queue_offset == expected[0]
    else:
        assert found.older_difference is None or found.older_difference.queue_offset == older[0]
        assert (found.older_difference is None) == (not older)


def test_runs_of_any_length_are_compared() -> None:
    files = view(simple(range(10_000)))
    assert diff(files, view(simple(range(10_000)))).is_ready
    found = diff(files, view(simple(range(10_000), 8_191)))
    assert found.first_missing == 8_191
    assert len(files.read(0, 3)) == 3 * UNIT_BYTES
