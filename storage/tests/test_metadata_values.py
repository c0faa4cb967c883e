"""The JSON of the configuration databases, byte for byte as fastjson 1.2.83 writes it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.tables.rocks._rows import GROUPS, OFFSETS, TOPICS, parse_version, version_row
from lanemq.storage.tables.rocks._values import BROWSER_MAX, dump_value, load_value
from lanemq.wire import LocalProtocolError, RemoteProtocolError
from lanemq.wire.bodies import DataVersion, SubscriptionGroupConfig, TopicConfig

# Written by the library itself: every character up to U+017F, and some that are special.
LIBRARYS = Path(__file__).parent / "vectors" / "browser_compatible.json"
CHARACTERS = "".join(map(chr, range(0x180))) + "\u2028\u2029\uffff\U0001f600'<>&"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def test_texts_and_numbers_are_written_as_the_library_writes_them() -> None:
    value = {
        "attributes": {'a/é"\\\n\x01': CHARACTERS},
        "b": False,
        "i": 0,
        "name": CHARACTERS,
        "o": None,
        "v": (1 << 63) - 1,
    }
    assert dump_value(value) == LIBRARYS.read_bytes()
    value["v"] = str(value["v"])
    del value["o"]
    assert load_value(LIBRARYS.read_bytes()) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: 640, 11: BROWSER_MAX}, '{"0":640,"11":9007199254740991}'),
        ({2: BROWSER_MAX + 1}, '{"2":"9007199254740992"}'),
        ({3: -BROWSER_MAX, 4: -BROWSER_MAX - 1}, '{"3":-9007199254740991,"4":"-9007199254740992"}'),
        (
            {"list": [1, BROWSER_MAX + 2, "x/y", None]},
            '{"list":[1,"9007199254740993","x\\/y",null]}',
        ),
        ({"d": 1.5, "n": None, "t": True}, '{"d":1.5,"t":true}'),
    ],
)
def test_numbers_a_browser_cannot_hold_are_texts(value: object, text: str) -> None:
    assert dump_value(value) == text.encode()


@pytest.mark.parametrize("value", [{1.5: 1}, {True: 1}, {"a": object()}, {b"a": 1}])
def test_what_has_no_such_form_is_refused(value: object) -> None:
    with pytest.raises(LocalProtocolError):
        dump_value(value)


@given(VALUES)
def test_every_value_is_ascii_and_comes_back(value: object) -> None:
    def texts(item: object) -> object:
        """As the reader sees it: a long number is a text."""
        if isinstance(item, dict):
            return {key: texts(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [texts(inner) for inner in item]
        if isinstance(item, int) and not isinstance(item, bool) and abs(item) > BROWSER_MAX:
            return str(item)
        return item

    data = dump_value(value)
    assert data.isascii()
    assert b"/" not in data.replace(b"\\/", b"")
    assert json.loads(data) == texts(value)


@given(st.dictionaries(st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1), max_size=6))
def test_offsets_come_back_whatever_their_size(offsets: dict[int, int]) -> None:
    row = OFFSETS.row(offsets)
    assert row == OFFSETS.row(OFFSETS.entry(row))
    assert OFFSETS.row({str(key): str(value) for key, value in offsets.items()}) == row
    entry = OFFSETS.entry(row)
    assert isinstance(entry, dict)
    assert {int(key): int(value) for key, value in entry.items()} == offsets


@given(TEXTS.filter(bool), st.integers(1, 1024), st.booleans(), st.dictionaries(TEXTS, VALUES))
def test_topics_come_back_with_what_is_not_known_of_them(
    name: str, queues: int, order: bool, extra: dict[str, Any]
) -> None:
    known = set(TopicConfig(name).to_json())
    extra = {key: value for key, value in extra.items() if key not in known}
    topic = TopicConfig(name, queues, queues, order=order, attributes={"a": name}, extra=extra)
    row = TOPICS.row(topic)
    assert TOPICS.row(TOPICS.entry(row)) == row
    again = TopicConfig.from_json(TOPICS.entry(row))
    assert (again.topic_name, again.read_queue_nums, again.order) == (name, queues, order)
    assert again.extra.keys() == extra.keys()


def test_entries_have_the_members_and_the_order_of_5_3_3() -> None:
    assert TOPICS.row(TopicConfig("BenchT2", 4, 4)) == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":4,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"BenchT2","topicSysFlag":0,'
        b'"writeQueueNums":4}'
    )
    assert GROUPS.row(SubscriptionGroupConfig("G")) == (
        b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
        b'"groupName":"G","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
        b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
        b'"whichBrokerWhenConsumeSlowly":1}'
    )
    assert OFFSETS.row({2: 768, 0: 640}) == b'{"offsetTable":{"0":640,"2":768}}'
    version = b'{"counter":3,"stateVersion":0,"timestamp":1795234580371}'
    assert parse_version(version) == DataVersion(1795234580371, 3, 0)
    assert version_row(parse_version(version)) == version
    assert version_row(DataVersion(1795234580371, 3)) == version


def test_what_5_3_3_added_to_an_entry_stays() -> None:
    entry = {"topicName": "T", "attributes": {"a": "b"}, "later": {"x/y": [1]}, "perm": "4"}
    assert TOPICS.entry(TOPICS.row(entry)) == {
        "attributes": {"a": "b"},
        "later": {"x/y": [1]},
        "order": False,
        "perm": 4,
        "readQueueNums": 16,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "T",
        "topicSysFlag": 0,
        "writeQueueNums": 16,
    }
    policy = {"groupName": "g", "groupRetryPolicy": {"type": "EXPONENTIAL", "retryMaxTimes": 3}}
    assert b'"groupRetryPolicy":{"type":"EXPONENTIAL","retryMaxTimes":3}' in GROUPS.row(policy)


@pytest.mark.parametrize("value", [[], {"0": "many"}, {"a": 1}, {"0": None}])
def test_what_is_no_offset_is_refused(value: object) -> None:
    with pytest.raises(RemoteProtocolError):
        OFFSETS.row(value)
