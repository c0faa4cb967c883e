"""Records and positions that pass a logical listener: tags, and the queue's own numbers."""

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.gateway.rewrites import with_id_host, with_tags
from lanemq.proxy.logical.listener.traffic import _send_answers, _sends
from lanemq.proxy.logical.rules._positions import (
    FAR_MASK,
    IDS_MAX,
    NEAR_END,
    BrokerTags,
    broker_tag,
    tagged,
    untagged,
)
from lanemq.proxy.logical.rules._records import rewrite_records
from lanemq.proxy.sessions.values._results import Stored
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.wire import HostAddress, LocalProtocolError, RemoteProtocolError, RequestCode, SysFlag
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame, request
from lanemq.wire.logical import Segment
from lanemq.wire.message import decode_messages, encode_offset_id, encode_record

V4, V6 = HostAddress("10.0.0.9", 10921), HostAddress("2001:db8::9", 10921)
positions = st.integers(0, NEAR_END - 1) | st.integers(NEAR_END, FAR_MASK)
hosts = st.sampled_from([HostAddress("10.0.0.1", 10911), HostAddress("2001:db8::1", 10911)])


@given(st.text(min_size=1), positions)
def test_a_position_carries_its_broker_and_stays_positive_in_63_bits(
    name: str, position: int
) -> None:
    value = tagged(broker_tag(name), position)
    assert 0 < value < 1 << 63
    tag, untouched = untagged(value)
    assert untouched == position
    assert name in BrokerTags([name, "other"]).names(tag)


@given(st.text(min_size=1), st.integers(0, NEAR_END - 1))
def test_in_the_first_8_tib_a_client_in_javascript_can_hold_it(name: str, position: int) -> None:
    value = tagged(broker_tag(name), position)
    assert value < 1 << 53
    assert int(float(value)) == value


def test_a_position_without_a_tag_is_somebody_s_own() -> None:
    assert untagged(12345) == (0, 12345)
    assert BrokerTags(["broker-a"]).names(0) == ()


def test_a_negative_position_gets_no_tag() -> None:
    with pytest.raises(LocalProtocolError, match="-1 is not a position"):
        tagged(1, -1)


def record(number: int, born: HostAddress, store: HostAddress, *, topic: str = "Topic") -> bytes:
    return encode_record(
        topic=topic.encode(),
        body=b"body %d" % number,
        properties=b"KEYS\x01%d\x02" % number,
        queue_id=2,
        flag=5,
        queue_offset=100 + number,
        log_position=4000 + number,
        sys_flag=SysFlag.BORN_HOST_V6 * born.is_v6 | SysFlag.STORE_HOST_V6 * store.is_v6,
        born_timestamp_ms=1,
        born_host=born.packed,
        store_timestamp_ms=2,
        store_host=store.packed,
        reconsume_times=1,
        prepared_transaction_offset=0,
    )


@given(
    st.lists(st.tuples(hosts, hosts, st.sampled_from(["T", "x" * 200])), min_size=1),
    st.sampled_from([V4, V6]),
)
def test_only_the_four_fields_of_a_record_change(
    kinds: list[tuple[HostAddress, HostAddress, str]], listener: HostAddress
) -> None:
    data = b"".join(record(n, *kind[:2], topic=kind[2]) for n, kind in enumerate(kinds))
    seen = decode_messages(
        rewrite_records(
            data,
            place=lambda queue_id, offset: (queue_id + 5, offset + 1000),
            tag=3,
            store_host=listener.packed,
        )
    )
    for before, after in zip(decode_messages(data), seen, strict=True):
        assert (after.queue_id, after.queue_offset) == (7, before.queue_offset + 1000)
        assert after.log_position == tagged(3, before.log_position)
        assert after.store_host == listener
        for name in ("magic", "body_crc", "flag", "born_host", "born_timestamp_ms", "topic"):
            assert getattr(after, name) == getattr(before, name)
        for name in ("body", "store_timestamp_ms", "reconsume_times", "properties_data"):
            assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize("cut", [1, 50, 90, 100])
def test_what_is_no_record_is_refused_with_its_place(cut: int) -> None:
    whole = record(0, V4, V4)
    with pytest.raises(RemoteProtocolError, match=f"byte {len(whole)} of"):
        rewrite_records(
            whole + whole[:cut], place=lambda *place: place, tag=1, store_host=V4.packed
        )


@given(positions)
def test_a_sender_gets_a_position_that_leads_back_to_its_message(position: int) -> None:
    """The quick way of the listener, for a message of its own broker at any place of its log."""
    broker: Any = MagicMock()
    code = RequestCode.SEND_MESSAGE
    broker.own.name = "broker1"
    broker.own.sends.quick = {code: lambda *_: Stored([position], 3, 7, position + 100)}
    broker.own.mappings = broker
    parts = ("address", "brokers", "check", "queues", "records", "routes")
    listener = _sends.Sends(**dict.fromkeys(parts, broker))
    view, mapping = broker.get("T"), broker.get("T")
    segment = Segment(MessageQueue("T", "broker1", 3), 0, 0)
    listener._open_ends["T"] = _sends._OpenEnds(view, mapping, {0: segment})
    stored = listener.handler(code)(request(code, {"topic": "T", "queueId": "0"}), broker)
    assert isinstance(stored, Stored)
    tag, found = untagged(stored.log_positions[0])
    assert found == position
    assert "broker1" in BrokerTags(["broker1", "broker2"]).names(tag)


CHANGES: list[Callable[[str], str]] = [
    lambda ids: with_id_host(ids, V4.packed.hex().upper()),
    lambda ids: with_tags(ids, 40),
    lambda ids: seen_ids(ids),
]


def seen_ids(ids: str) -> str:
    """Return the ids of another broker's answer to a send as clients of a listener get them."""
    segment, records = Segment(MessageQueue("T", "b", 0), 0, 0), MagicMock()
    records.offset_id = lambda name, position: f"{position:032X}"
    asked = request(RequestCode.SEND_MESSAGE, {"queueId": "0"})
    answer = asked.reply(fields={"msgId": ids, "queueId": "0", "queueOffset": "1"})
    found = _send_answers.seen(asked, answer, segment, records)
    assert isinstance(found, Frame)
    return found.fields["msgId"]


@pytest.mark.parametrize("change", CHANGES)
def test_very_many_ids_of_a_batch_stay_as_their_broker_gave_them(
    change: Callable[[str], str],
) -> None:
    """A broker may answer any send with a header full of them."""
    for one in (encode_offset_id(HostAddress("10.0.0.1", 1), 5), "1"):
        many = ",".join(IDS_MAX * [one])
        assert change(many) == ",".join(IDS_MAX * [change(one)])
        assert change(f"{many},1") == f"{many},1"
    with calls_of_this_thread() as calls:
        assert len(change("," * (1 << 20))) == 1 << 20
    assert calls.count < 1000
