"""Views of name servers do not take back what brokers have told since."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

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


def test_a_view_that_shows_the_end_counts_whatever_it_shows_behind() -> None:
    redirects = RecentRedirects()
    redirects.note(MOVED, 100.0)
    gone_past = view_of(FIRST.sealed(40), opened("broker3", 40))
    assert list(redirects.unheard(gone_past, 101.0)) == []
    assert list(redirects.unheard(view_of(opened("broker3", 0)), 101.0)) == []
    assert list(redirects.unheard(LogicalQueues(), 101.0)) == []


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
)
def test_no_view_is_taken_back_nor_brought_further_than_brokers_have_told(
    moves: Sequence[tuple[str, int]], told: set[int], at: int
) -> None:
    """A queue that goes from broker to broker; a client that was told of some of it."""
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
    known = seen(redirects, LogicalQueues([history[at]]), 8.0)[0]
    untold = (number for number in range(at, len(moves)) if number not in told)
    assert known == history[next(untold, len(moves))]
    assert not check_chain(known)
