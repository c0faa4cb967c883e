"""The table of half messages, against a model that forgets nothing and reads slowly."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lanemq.proxy.broker.transactions._state import Fate, HalfMessages
from lanemq.proxy.net._turns import LOOKS_OF_A_STEP

SMALL_PAST = 3


class HalfMachine(RuleBasedStateMachine):
    """A transaction is the list of its places in the half queue; the last one is its copy."""

    def __init__(self) -> None:
        super().__init__()
        self.table = HalfMessages(0, 0, past_max=SMALL_PAST)
        self.places: list[list[int]] = []
        self.over: set[int] = set()
        self.end = 0
        self.ops: list[int] = []

    @rule()
    def send(self) -> None:
        self.places.append([self.end])
        self.end += 1

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def end_transaction(self, data: st.DataObject) -> None:
        which = data.draw(st.integers(0, len(self.places) - 1))
        places = self.places[which]
        place = data.draw(st.sampled_from(places))
        resolved = self.table.resolve(place, places[0])
        if which not in self.over:
            assert resolved == places[-1], "whichever place is named, the copy ends"
        elif self.table.fate(place) is not None:
            assert resolved is None, "an end that comes twice is recognised"
        if which not in self.over:
            assert resolved is not None
            self.table.ended(len(self.ops), [resolved], origin=places[0])
            self.ops.append(resolved)
            self.over.add(which)

    @precondition(lambda self: len(self.over) < len(self.places))
    @rule(data=st.data())
    def check(self, data: st.DataObject) -> None:
        which = data.draw(st.sampled_from(sorted(set(range(len(self.places))) - self.over)))
        places = self.places[which]
        self.table.renewed(places[0], places[-1], self.end)
        places.append(self.end)
        self.end += 1

    @rule()
    def restart(self) -> None:
        """The half messages that a table names are enough to make the next one."""
        table = HalfMessages(self.table.begin, self.table.op_begin, past_max=SMALL_PAST)
        for op_offset in range(self.table.op_begin, len(self.ops)):
            table.ended(op_offset, [self.ops[op_offset]])
        copies = {copy: places[0] for places in self.places for copy in places[1:]}
        over: set[int] = set()
        for offset in range(self.table.begin, self.end):
            if offset in copies:
                table.found_copy(copies[offset], offset, over)
        self.table = table

    @invariant()
    def the_open_ones_are_those_of_the_model(self) -> None:
        expected = [p[-1] for which, p in enumerate(self.places) if which not in self.over]
        found, offset = [], self.table.next_open(0)
        while offset < self.end:
            found.append(offset)
            offset = self.table.next_open(offset + 1)
        assert found == sorted(expected)
        assert self.table.begin == min([*expected, self.end])
        needed = [n for n, half in enumerate(self.ops) if half >= self.table.begin]
        assert self.table.op_begin <= min([*needed, len(self.ops)])


HalfMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestHalfMessages = HalfMachine.TestCase


def test_a_start_reads_less_than_there_is_and_takes_a_late_end_for_the_first() -> None:
    table = HalfMessages(100, 40)
    assert table.fate(99) is None
    assert table.resolve(99, 99) == 99


def test_what_is_gone_with_the_log_is_not_asked_about() -> None:
    table = HalfMessages(0, 0)
    table.skip(1_000_000_000)
    assert (table.begin, table.next_open(0)) == (1_000_000_000, 1_000_000_000)
    assert len(table._fates) == 0


def test_op_messages_of_5x_name_several_and_unreadable_ones_none() -> None:
    table = HalfMessages(0, 0)
    table.ended(0, [1, 2])
    table.ended(1, [])
    table.ended(2, [0])
    assert (table.begin, table.op_begin) == (3, 3)


def test_more_copies_than_are_remembered_end_as_at_the_reference() -> None:
    table = HalfMessages(0, 0, links_max=1)
    table.renewed(0, 0, 2)
    table.renewed(1, 1, 3)
    assert table.fate(1) is Fate.DISCARDED
    assert table.resolve(0, 0) == 2
    assert table.resolve(1, 1) == 1, "an end for the first place ends that one alone"
    assert table.next_open(0) == 2


def test_copies_of_a_killed_broker_end_together() -> None:
    table = HalfMessages(0, 0)
    table.ended(0, [2])
    over: set[int] = set()
    for copy in (1, 2, 3, 4):
        table.found_copy(0, copy, over)
    assert table.next_open(0) == 5
    assert table.resolve(0, 0) is None


def test_no_step_passes_over_all_that_came_behind_an_old_transaction() -> None:
    table, number = HalfMessages(0, 0), 20 * LOOKS_OF_A_STEP
    for offset in range(number):
        table.ended(offset, [offset + 1])
    assert (table.begin, table.op_begin) == (0, 0)
    table.ended(number, [0])
    assert table.begin == number + 1
    passed = [table.op_begin]
    while table.advance():
        passed.append(table.op_begin)
    passed.append(table.op_begin)
    steps = [after - before for before, after in pairwise([0, *passed])]
    assert max(steps) <= LOOKS_OF_A_STEP
    assert table.op_begin == number + 1
    assert not table.advance()
