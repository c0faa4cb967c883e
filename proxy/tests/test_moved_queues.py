"""The parts of moved queues, and what requests and answers become at them: all pure."""

from typing import Final
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.gateway.moves._messages import MessageRequests
from lanemq.proxy.gateway.moves._numbers import (
    Note,
    again,
    commits_at_parts,
    is_behind,
    note_of_send,
    part_to_read,
    pull_at_part,
    seen_pull,
    seen_send,
)
from lanemq.proxy.gateway.moves._records import RECORDS_MAX, is_stored_elsewhere, seen_records
from lanemq.proxy.gateway.order import MovedQueue, Part, QueueOrder, SeenQueue, extended, tag_of
from lanemq.proxy.logical.rules._positions import tagged
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.wire import HostAddress, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.message import decode_messages, encode_properties, encode_record

Code = RequestCode
SEEN: Final = SeenQueue("broker-a", 1)
ENDS: Final = st.lists(st.integers(0, 20), max_size=5)


def chain(ends: list[int]) -> MovedQueue:
    """Return a queue of which all parts but the last have ended."""
    parts = [Part(f"broker-{at % 3}", at, end) for at, end in enumerate(ends)]
    return MovedQueue((*parts, Part("broker-z", 9)))


@given(ENDS, st.integers(0, 150))
def test_each_offset_has_one_part_and_its_own_place_there(ends: list[int], offset: int) -> None:
    moved = chain(ends)
    part = moved.part_at(offset)
    own = offset - moved.begins[part]
    assert own >= 0
    assert part == len(ends) or own < ends[part]
    # What is before it lies in parts before, and all of them.
    assert sum(ends[:part]) + own == offset
    before = moved.part_before(offset)
    assert offset == 0 or before == moved.part_at(offset - 1)


@given(ENDS, st.integers(0, 150))
def test_a_commit_is_found_again_by_the_last_part_that_has_one(
    ends: list[int], offset: int
) -> None:
    moved = chain(ends)
    fields = {"topic": "T", "queueId": "1", "commitOffset": str(offset)}
    commits = commits_at_parts(request(Code.UPDATE_CONSUMER_OFFSET, fields), moved)
    kept = dict.fromkeys(range(len(moved.parts)), 7)  # progress of earlier
    for part, frame in commits:
        assert frame.fields["queueId"] == str(moved.parts[part].queue_id)
        kept[part] = int(frame.fields["commitOffset"])
    last = next((at for at in sorted(kept, reverse=True) if at and kept[at] > 0), 0)
    assert moved.begins[last] + kept[last] == offset


MOVES: Final = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.sampled_from("abc"), st.integers(1, 3)),
        st.tuples(st.just("move"), st.sampled_from("abc"), st.integers(0, 30)),
    ),
    max_size=12,
)


@given(MOVES)
def test_lists_only_grow_at_their_ends_however_queues_move_meanwhile(
    steps: list[tuple[str, str, int]],
) -> None:
    order, behind = extended(QueueOrder(), {"a": 2, "b": 2}, ())
    told = {"a": 2, "b": 2}
    for what, broker, number in steps:
        before = order.queues()
        if what == "grow":
            told[broker] = told.get(broker, 0) + number
            order, behind = extended(order, told, behind)
            assert not order.lacks(told)
        else:
            queue = before[number % len(before)]
            place = order.own_of(queue)
            assert place is not None
            moved = order.moved_at(*place) or MovedQueue((Part(*place),))
            if moved.last.broker == broker:
                continue
            target = Part(broker, order.known_of(broker))
            now = moved.prepared(target).sealing().moved(number)
            order = order.with_moved(order.moved_at(*place), now).with_kept(target.place)
            told[broker] = target.queue_id + 1
            assert order.seen(*target.place) == queue
            assert order.queues() == before
        assert order.queues()[: len(before)] == before
        assert order.count == len(order.queues())
        assert [order.index_of(one) for one in order.queues()] == list(range(order.count))
        assert [order.own_of(one) is not None for one in order.queues()] == [True] * order.count
        # Each queue of a broker is seen at one place, or is made for a moved one.
        own = [order.own_of(one) for one in order.queues()]
        assert len({*own, *order.kept}) == len(own) + len(order.kept)
        assert {one for one in [*own, *order.kept] if one} == {
            (name, at) for name, count in told.items() for at in range(count)
        }
        assert QueueOrder.decode(order.encode()) == order


def called_off(*kept: tuple[str, int], moved: MovedQueue | None = None) -> QueueOrder:
    return QueueOrder((("a", 2), ("b", 2)), (), () if moved is None else (moved,), kept)


ON_ITS_WAY: Final = MovedQueue((Part("b", 0),), Part("a", 3))


@pytest.mark.parametrize(
    ("order", "told", "written", "places"),
    [
        # Growth finds the queue of a move that was called off, wherever its number is.
        (called_off(("a", 2)), {"a": 4}, {"a": 4}, ["~lanemq-000 0", "~lanemq-000 1"]),
        (called_off(("a", 2)), {"a": 3}, {"a": 3}, ["~lanemq-000 0"]),
        (called_off(("b", 2)), {"b": 4}, {"b": 4}, ["b 2", "b 3"]),
        # Who can only read does not lose a message there.
        (called_off(("a", 2)), {"a": 3}, {"a": 2}, []),
        # What a queue is on its way to is not for everybody.
        (called_off(("a", 3), ("a", 2), moved=ON_ITS_WAY), {"a": 4}, {"a": 4}, ["~lanemq-000 0"]),
        (
            called_off(("a", 3), ("a", 2), moved=ON_ITS_WAY),
            {"a": 5},
            {"a": 5},
            ["~lanemq-000 0", "~lanemq-001 0"],
        ),
    ],
)
def test_a_queue_of_a_move_that_was_called_off_is_seen_once_it_can_be_written(
    order: QueueOrder, told: dict[str, int], written: dict[str, int], places: list[str]
) -> None:
    now, behind = extended(order, told, (), written)
    assert [f"{one.broker} {one.queue_id}" for one in now.queues()[order.count :]] == places
    assert now.queues()[: order.count] == order.queues()
    assert not now.lacks(told, written)
    assert order.lacks(told, written) == bool(places)
    assert QueueOrder.decode(now.encode()) == now
    assert extended(now, told, behind, written) == (now, behind)


@pytest.mark.parametrize(
    "order",
    [
        QueueOrder((("a", 2),), (), (MovedQueue((Part("a", 1, 5), Part("b", 0))),)),  # not kept
        QueueOrder((("a", 2),), (), (MovedQueue((Part("a", 1), Part("b", 0))),), (("b", 0),)),
        QueueOrder((("a", 1),), (), (MovedQueue((Part("a", 1, 5), Part("b", 0))),), (("b", 0),)),
        QueueOrder((("a", 2),), (), (MovedQueue((Part("a", 1),)),)),  # on no way
        QueueOrder((("a", 2),), (), (), (("b", 0), ("b", 0))),
        QueueOrder((("a", 2),), (), (), (("b", -1),)),
        QueueOrder((("a", 2),), (), (MovedQueue((Part("a", 1, 5, 6), Part("b", 0))),), (("b", 0),)),
        QueueOrder(
            (("a", 2),), (), (MovedQueue((Part("a", 1, 5, -1), Part("b", 0))),), (("b", 0),)
        ),
        QueueOrder(
            (("a", 2),), (), (MovedQueue((Part("a", 1, 5), Part("b", 0, -1, 1))),), (("b", 0),)
        ),
    ],
)
def test_an_order_that_contradicts_itself_is_none(order: QueueOrder) -> None:
    with pytest.raises(RemoteProtocolError):
        QueueOrder.decode(order.encode())


def records(count: int, *, start: int = 0) -> bytes:
    host = HostAddress("10.0.0.1", 1).packed
    return b"".join(
        encode_record(
            topic=b"T",
            body=b"%d" % at,
            properties=b"",
            queue_id=4,
            flag=0,
            queue_offset=at,
            log_position=1000 + at,
            sys_flag=0,
            born_timestamp_ms=1,
            born_host=host,
            store_timestamp_ms=2,
            store_host=host,
        )
        for at in range(start, start + count)
    )


def pulled(code: int, following: int, body: bytes = b"") -> Frame:
    fields = {"nextBeginOffset": str(following), "minOffset": "0", "maxOffset": "9"}
    return Frame(code, fields=fields, body=body)


def note_at(moved: MovedQueue, part: int, own: int) -> Note:
    frame = request(Code.PULL_MESSAGE, {"queueOffset": str(moved.begins[part] + own)})
    return Note(frame, "T", SEEN, moved.place, part, own, is_plain=True)


def test_a_pull_is_asked_of_one_part_and_ends_there() -> None:
    moved = chain([5, 3])
    fields = {
        "topic": "T",
        "queueId": "1",
        "queueOffset": "6",
        "maxMsgNums": "32",
        "sysFlag": "3",
        "bname": "broker-a",
    }
    own, note = pull_at_part(request(Code.PULL_MESSAGE, fields), "T", SEEN, moved)
    assert (note.part, note.offset) == (1, 1)
    assert own.fields == {
        "topic": "T",
        "queueId": "1",
        "queueOffset": "1",
        "maxMsgNums": "2",
        "sysFlag": "2",
        "bname": "broker-1",
    }


def test_what_lies_behind_the_end_of_a_part_is_seen_by_nobody() -> None:
    moved = chain([5])
    answer = seen_pull(note_at(moved, 0, 3), moved, pulled(0, 7, records(4, start=3)), 0)
    found = decode_messages(answer.body)
    assert [(one.queue_id, one.queue_offset) for one in found] == [(1, 3), (1, 4)]
    assert answer.fields["nextBeginOffset"] == "5"
    late = seen_pull(note_at(moved, 0, 5), moved, pulled(0, 7, records(2, start=5)), 0)
    assert (late.code, late.body) == (ResponseCode.PULL_RETRY_IMMEDIATELY, b"")
    assert late.fields["nextBeginOffset"] == "5"


def test_messages_of_a_later_part_have_offsets_and_positions_of_their_own() -> None:
    moved = chain([5])
    answer = seen_pull(note_at(moved, 1, 0), moved, pulled(0, 2, records(2)), 40)
    found = decode_messages(answer.body)
    assert [one.queue_offset for one in found] == [5, 6]
    assert all(one.log_position > 1 << 43 for one in found)
    assert (answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == ("7", "14")


@pytest.mark.parametrize("ends", [[], [9000]])
def test_a_pull_brings_so_many_messages_at_most_and_the_next_one_goes_on(ends: list[int]) -> None:
    """A broker may answer with 180,000 of the shortest ones, however few were asked for."""
    moved, count, begin = chain(ends), 2 * RECORDS_MAX + 5, 0
    found: list[int] = []
    while begin < count:
        body = records(count - begin, start=begin)
        with calls_of_this_thread() as calls:
            answer = seen_pull(note_at(moved, 0, begin), moved, pulled(0, count, body), 0)
        assert calls.count <= 8 * RECORDS_MAX
        found += [one.queue_offset for one in decode_messages(answer.body)]
        begin = int(answer.fields["nextBeginOffset"])
        assert begin == len(found)
    assert found == list(range(count))


def test_of_a_message_at_a_place_clients_get_the_first_one() -> None:
    """However many a broker answers with: it is asked for one."""
    links, port, orders = MagicMock(), MagicMock(), MagicMock()
    orders.behind = ("broker-b",)
    orders.seen.return_value = SEEN
    requests = MessageRequests(port, orders, lambda _: links, MagicMock())
    offset = str(tagged(tag_of(orders.behind, "broker-b"), 7))
    asked = request(Code.VIEW_MESSAGE_BY_ID, {"offset": offset})
    assert requests.by_position(asked, MagicMock(), "offset") is None
    change = links.ask.call_args.args[2]
    many = asked.reply(body=records(5000))
    with calls_of_this_thread() as calls:
        answer = change(many)
    assert calls.count < 1000
    (first,) = decode_messages(answer.body)
    assert (first.queue_id, first.queue_offset) == (SEEN.queue_id, 0)
    assert change(strange := asked.reply(body=b"no record")) == strange


def test_readers_stay_where_a_broker_has_lost_what_was_there() -> None:
    moved = chain([5])
    answer = seen_pull(note_at(moved, 0, 3), moved, pulled(ResponseCode.PULL_OFFSET_MOVED, 2), 0)
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert answer.fields["nextBeginOffset"] == "3"


def test_readers_pass_over_what_is_lost_once_they_may_and_offsets_behind_stay() -> None:
    moved = chain([5, 4, 3]).without(0, 3).without(1, 0)
    assert moved.begins == chain([5, 4, 3]).begins
    assert [part.read_end for part in moved.parts] == [3, 0, 3, -1]
    for offset, part in ((2, 0), (3, 1), (4, 1), (5, 2), (8, 2), (9, 2), (11, 2), (12, 3)):
        fields = {"queueOffset": str(offset), "maxMsgNums": "32", "topic": "T", "queueId": "1"}
        own, note = pull_at_part(request(Code.PULL_MESSAGE, fields), "T", SEEN, moved)
        assert part_to_read(note, moved, ()) == part
        if offset == 2:
            assert own.fields["maxMsgNums"] == "1"
    assert part_to_read(note_at(moved, 0, 3), moved, {1}) == 2
    # What the broker stores there later is behind the end, and is sent on to the open one.
    answer = seen_pull(note_at(moved, 0, 1), moved, pulled(0, 4, records(3, start=1)), 0)
    assert [one.queue_offset for one in decode_messages(answer.body)] == [1, 2]
    assert answer.fields["nextBeginOffset"] == "3"
    for own_offset in (3, 4):  # asked before it was let pass
        late = seen_pull(note_at(moved, 0, own_offset), moved, pulled(0, 5, records(2, start=3)), 0)
        assert (late.code, late.body) == (ResponseCode.PULL_RETRY_IMMEDIATELY, b"")
        assert late.fields["nextBeginOffset"] == "5"


def test_an_order_of_before_losts_were_noted_is_read() -> None:
    moved = MovedQueue((Part("a", 1, 5, 2), Part("b", 0)))
    order = QueueOrder((("a", 2),), (), (moved,), (("b", 0),))
    assert QueueOrder.decode(order.encode()) == order
    text = order.encode().replace(b'["a",1,5,2]', b'["a",1,5]').replace(b"-1,0]", b"-1]")
    assert QueueOrder.decode(text) == QueueOrder((("a", 2),), (), (chain_of(moved),), (("b", 0),))


def chain_of(moved: MovedQueue) -> MovedQueue:
    """Return a queue of which nothing is lost."""
    return MovedQueue(tuple(Part(*part.place, part.end) for part in moved.parts))


def test_readers_go_on_where_a_broker_has_deleted_what_was_there() -> None:
    moved = chain([5])
    for following, expected in ((4, "4"), (9, "5")):
        code = ResponseCode.PULL_OFFSET_MOVED
        answer = seen_pull(note_at(moved, 0, 1), moved, pulled(code, following), 0)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.fields["nextBeginOffset"] == expected
    assert again(note_at(moved, 0, 1), moved, 5).fields["nextBeginOffset"] == "5"


def test_an_acknowledgement_is_given_only_for_what_is_before_the_end() -> None:
    fields = {"b": "T", "e": "1", "f": "0", "i": ""}
    moved = MovedQueue((Part("broker-0", 1),))
    note = note_of_send(request(Code.SEND_MESSAGE_V2, fields), "T", SEEN, moved)
    ended = moved.prepared(Part("b", 4)).sealing().moved(5)
    for offset, ids, expected in (
        (4, "x", False),
        (5, "x", True),
        (3, "x,x", False),
        (4, "x,x", True),
    ):
        answer = Frame(0, fields={"queueOffset": str(offset), "msgId": ids, "queueId": "1"})
        assert is_behind(note, ended, answer) is expected
    later = note_of_send(request(Code.SEND_MESSAGE_V2, fields), "T", SEEN, ended)
    answer = Frame(0, fields={"queueOffset": "2", "queueId": "4"})
    assert seen_send(later, ended, answer, 0).fields == {"queueOffset": "7", "queueId": "1"}


@pytest.mark.parametrize(
    ("flag", "properties", "expected"),
    [
        ("0", {}, False),
        ("4", {"TRAN_MSG": "true"}, True),
        ("0", {"TRAN_MSG": "false"}, False),
        ("0", {"DELAY": "3"}, True),
        ("0", {"DELAY": "0"}, False),
        ("0", {"KEYS": "DELAY"}, False),
        ("0", {"TIMER_DELAY_SEC": "3"}, True),
    ],
)
def test_offsets_of_halves_and_delayed_messages_are_not_the_queues(
    flag: str, properties: dict[str, str], expected: bool
) -> None:
    assert is_stored_elsewhere(flag, encode_properties(properties).decode()) is expected


@given(st.binary(max_size=300), st.integers(-1, 5))
def test_bytes_that_are_no_records_are_refused_or_kept_in_length(data: bytes, end: int) -> None:
    try:
        found = seen_records(data, lambda queue, offset: (queue, offset), 40, end)
    except RemoteProtocolError:
        return
    assert found.is_cut or len(found.records) == len(data)
