"""Views of name servers do not take back what brokers have told since."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import (
    Chain,
    LogicalQueues,
    RecentRedirects,
    Redirect,
    Segment,
    SegmentState,
    check_chain,
)

BROKERS = ("broker1", "broker2", "broker3")


def opened(broker_name: str, delta: int, *, index: int = 0, begin: int = 0) -> Segment:
    return Segment(MessageQueue("T", broker_name, 0), index, delta, offset_delta=begin)


def view_of(*segments: Segment) -> LogicalQueues:
    return LogicalQueues.of(segments)


def seen(redirects: RecentRedirects, view: LogicalQueues, now_s: float) -> LogicalQueues:
    """The view with everything that it has not heard of."""
    for redirect in redirects.unheard(view, now_s):
        view = view.put_segments(redirect.current, redirect.following)
    return view


FIRST = opened("broker1", 0)
SECOND = opened("broker2", 40)
MOVED = Redirect(FIRST.sealed(40), SECOND)


def test_a_view_from_before_the_migration_is_brought_up_to_date() -> None:
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    other = opened("broker1", 0, index=1)
    found = seen(redirects, view_of(FIRST, other), 101.0)
    assert found == view_of(FIRST.sealed(40), SECOND, other)


def test_a_destination_that_waits_in_the_view_has_been_opened() -> None:
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    waits = replace(SECOND, delta=-1, state=SegmentState.WRITE_ONLY)
    assert seen(redirects, view_of(FIRST, waits), 101.0) == view_of(FIRST.sealed(40), SECOND)


def test_a_view_that_has_heard_of_the_source_alone_is_brought_up_to_date() -> None:
    """Otherwise a reader behind the end would be sent back to it."""
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    ended = FIRST.sealed(40, first_time_ms=1, last_time_ms=2).with_state(SegmentState.EXPIRED)
    waits = replace(SECOND, delta=-1, state=SegmentState.WRITE_ONLY)
    for view in (view_of(ended), view_of(ended, waits)):
        assert seen(redirects, view, 101.0) == view_of(ended, SECOND)
    passed = opened("broker3", 40).sealed(0)  # the queue was there, and went on without a message
    assert seen(redirects, view_of(ended, passed), 101.0) == view_of(ended, passed, SECOND)


def test_a_view_that_shows_what_came_after_the_source_counts() -> None:
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    for view in (
        view_of(FIRST.sealed(40), opened("broker3", 40)),  # the destination was given up
        view_of(FIRST.sealed(40), opened("broker1", 40, begin=40)),  # the migration was called off
        view_of(FIRST.sealed(40), SECOND.sealed(5)),
        view_of(FIRST.sealed(38)),  # the end of another one
        view_of(opened("broker3", 0)),
        LogicalQueues(),
    ):
        assert redirects.unheard(view, 101.0) == []


def test_a_queue_is_not_left_without_an_open_end() -> None:
    """A sender would find none, while the source at least says where to go."""
    redirects = RecentRedirects()
    ended = SECOND.sealed(5)
    first, second = Redirect(FIRST.sealed(40), ended), Redirect(ended, opened("broker3", 45))
    redirects.note(first, 100.0)
    assert redirects.unheard(view_of(FIRST), 101.0) == []
    redirects.note(second, 101.0)
    assert redirects.unheard(view_of(FIRST), 101.0) == [first, second]


def test_redirects_that_were_learned_the_other_way_round_are_applied_in_order() -> None:
    redirects = RecentRedirects()
    ended = SECOND.sealed(5)
    first, second = Redirect(FIRST.sealed(40), ended), Redirect(ended, opened("broker3", 45))
    redirects.note(second, 100.0)
    redirects.note(first, 101.0)
    assert redirects.unheard(view_of(FIRST), 101.0) == [first, second]


def test_the_same_redirect_counts_once_and_from_its_first_time() -> None:
    """Every reader that waits is given it."""
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    ended = SECOND.sealed(5)
    onward = Redirect(ended, opened("broker3", 45))
    for n in range(20):
        redirects.note(onward, 101.0 + n / 4)
    assert redirects.unheard(view_of(FIRST), 106.0) == [MOVED, onward]
    assert redirects.unheard(view_of(SECOND), 110.5) == [onward]
    assert redirects.unheard(view_of(SECOND), 111.0) == []
    assert not redirects


def test_after_ten_seconds_views_count_alone() -> None:
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    assert list(redirects.unheard(view_of(FIRST), 109.9)) == [MOVED]
    assert list(redirects.unheard(view_of(FIRST), 110.0)) == []
    assert list(redirects.unheard(view_of(FIRST), 100.0)) == []  # forgotten


def test_a_redirect_past_other_segments_or_from_an_open_one_is_not_kept() -> None:
    redirects = RecentRedirects()
    for redirect in (
        Redirect(FIRST.sealed(40), opened("broker3", 55)),
        Redirect(FIRST, SECOND),
        Redirect(FIRST.sealed(40), replace(SECOND, state=SegmentState.WRITE_ONLY)),
        Redirect(FIRST.sealed(0), opened("broker2", 0)),  # it may be opened once more
        Redirect(FIRST.sealed(40), replace(SECOND, logical_index=1)),
        Redirect(FIRST.sealed(40), replace(SECOND, delta=-1, state=SegmentState.WRITE_ONLY)),
    ):
        redirects.note(redirect, 100.0)
    assert list(redirects.unheard(view_of(FIRST), 100.0)) == []


def test_of_many_redirects_the_oldest_are_forgotten() -> None:
    redirects = RecentRedirects()
    chain = [opened(BROKERS[n % 2], n, begin=n // 2) for n in range(20)]
    told = [
        Redirect(before.sealed(before.offset_delta + 1), after) for before, after in pairwise(chain)
    ]
    for redirect in told:
        redirects.note(redirect, 100.0)
    assert list(redirects.unheard(view_of(chain[0]), 101.0)) == []
    assert list(redirects.unheard(view_of(chain[11]), 101.0)) == told[11:]


@given(
    moves=st.lists(st.tuples(st.sampled_from(BROKERS), st.integers(1, 5)), min_size=1, max_size=8),
    told=st.sets(st.integers(0, 7)),
    at=st.integers(0, 8),
    destination=st.sampled_from(["open source", "not there", "waits"]),
)
def test_no_view_is_taken_back_nor_brought_further_than_brokers_have_told(
    moves: Sequence[tuple[str, int]], told: set[int], at: int, destination: str
) -> None:
    """A queue that goes from broker to broker; a client that was told of some of it.

    Of the next migration the view may show that its source has ended, or not even that.
    """
    ends: dict[str, int] = {}
    history = [Chain(0, [FIRST])]
    redirects = RecentRedirects()
    for number, (name, count) in enumerate(moves):
        source = history[-1].normal
        assert source is not None
        ends[source.broker_name] = source.offset_delta + count
        ended = source.sealed(source.offset_delta + count)
        target = opened(name, ended.next_delta, begin=ends.get(name, 0))
        history.append(history[-1].put(ended, target))
        if number in told:
            redirects.note(Redirect(ended, target), float(number))
    at = min(at, len(moves))
    shown = history[at]
    if at < len(moves) and destination != "open source":
        ended, target = history[at + 1].segments[-2:]
        shown = shown.put(ended)
        if destination == "waits":
            shown = shown.put(replace(target, delta=-1, state=SegmentState.WRITE_ONLY))
    known = seen(redirects, LogicalQueues([shown]), 8.0)[0]
    # A redirect from the destination that waits in the view has its place, too.
    first = at + 1 if destination == "waits" and at + 1 < len(moves) and at + 1 in told else at
    last = next((number for number in range(first, len(moves)) if number not in told), len(moves))
    assert known == (shown if last == at else history[last])
    assert not check_chain(known)


def test_a_redirect_that_is_longer_than_any_is_not_read() -> None:
    queue = MessageQueue("t" * 255, "b" * 255, 2**31 - 1)
    most = 2**63 - 1
    longest = Segment(
        queue, most, most, SegmentState.NORMAL, most, most, most, most, broker_address="a" * 255
    )
    redirect = Redirect(longest, longest)
    assert Redirect.decode(redirect.encode()) == redirect
    with pytest.raises(RemoteProtocolError, match=r"JSON of \d+ bytes, at most 8192 are read"):
        Redirect.decode(redirect.encode() + b" " * 8192)
