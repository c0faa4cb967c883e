"""Readers of a queue that went on before the end of what they were given continue at that place."""

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Chain, ReaderPositions, Segment, SegmentState

SOURCE = Segment(MessageQueue("T", "broker1", 0), 0, 0)
OPENED = Segment(MessageQueue("T", "broker2", 3), 0, 10, migration=2)
BEFORE = Chain(0, [SOURCE])
FORCED = Chain(0, [SOURCE.sealed(10), OPENED])


def reader_at(offset: int, segment: Segment = SOURCE) -> ReaderPositions[str]:
    places: ReaderPositions[str] = ReaderPositions(2)
    places.note("reader", segment, offset)
    return places


def committed(places: ReaderPositions[str], reader: str, offset: int, chain: Chain) -> int:
    """The offset that counts where a reader commits one, as clients work it out."""
    reached = places.reached(reader, offset)
    return offset if reached is None else reached.worth(offset, chain)


def test_a_reader_past_the_cut_goes_on_at_the_cut_however_often_it_asks() -> None:
    places = reader_at(80)
    assert places.go_on_at("reader", 80, SOURCE, BEFORE) is None
    for _ in range(2):
        assert places.go_on_at("reader", 80, OPENED, FORCED) == 10
        assert committed(places, "reader", 80, FORCED) == 10
    assert places.go_on_at("another", 80, OPENED, FORCED) is None
    assert committed(places, "another", 80, FORCED) == 80
    places.note("reader", OPENED, 42)
    assert places.go_on_at("reader", 42, OPENED, FORCED) is None
    assert committed(places, "reader", 42, FORCED) == 42


def test_a_reader_that_asks_for_another_place_is_let_go_there() -> None:
    places = reader_at(80)
    assert places.go_on_at("reader", 50, OPENED, FORCED) is None
    assert committed(places, "reader", 90, FORCED) == 90


def test_a_reader_before_the_cut_and_one_at_it_are_past_nothing() -> None:
    for offset in (7, 10):
        places = reader_at(offset)
        assert places.go_on_at("reader", offset, OPENED, FORCED) is None
        assert committed(places, "reader", offset, FORCED) == offset


def test_what_never_had_a_message_cuts_nothing() -> None:
    called_off = OPENED.sealed(0)
    again = Segment(MessageQueue("T", "broker1", 1), 0, 80, migration=3)
    chain = Chain(0, [SOURCE.sealed(80), called_off.with_state(SegmentState.READ_ONLY), again])
    assert reader_at(80).go_on_at("reader", 80, again, chain) is None


def test_no_more_places_are_kept_than_the_limit() -> None:
    places = reader_at(80)
    places.note("second", SOURCE, 80)
    places.note("second", SOURCE, 81)
    assert places.go_on_at("reader", 80, OPENED, FORCED) == 10
    places.note("third", SOURCE, 80)
    assert places.go_on_at("reader", 80, OPENED, FORCED) is None
    assert places.go_on_at("third", 80, OPENED, FORCED) == 10
