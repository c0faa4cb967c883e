"""The properties that are stored of a message, whatever the messages before it had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.broker.settings._config import BrokerConfig
from lanemq.proxy.broker.values._own_properties import Kind, OwnProperties
from lanemq.wire.message import decode_properties

SEGMENTS = st.sampled_from(
    [
        "KEYS\x01a b",
        "TAGS\x01A",
        "DELAY\x013",
        "TRAN_MSG\x01true",
        "TRAN_MSG\x01True",
        "XTRAN_MSG\x01true",
        "TIMER_DELAY_SEC\x013",
        "CLUSTER\x01another",
        "TRACE_ON\x01false",
        "XWAIT\x01false",
        "UNIQ_KEY\x01again",
        "x\x01DELAY",
        "no value",
        "",
    ]
)
TEXTS = st.builds(
    lambda unique, segments, wait, end: "\x02".join([*unique, *segments, *wait]) + end,
    st.sampled_from([["UNIQ_KEY\x01U1"], ["UNIQ_KEY\x01U2"], ["UNIQ_KEY\x01DELAY\x013"], []]),
    st.lists(SEGMENTS, max_size=3),
    st.sampled_from([["WAIT\x01true"], ["WAIT\x01false"], ["WAIT\x01false", "KEYS\x01k"], []]),
    st.sampled_from(["", "\x02"]),
)


@given(st.lists(TEXTS, max_size=6))
def test_each_message_is_stored_with_its_own(texts: list[str]) -> None:
    own = OwnProperties(BrokerConfig())
    for text in (*texts, *texts):
        stored, waits, kind = own.to_store(text)
        sent = decode_properties(text)
        added = decode_properties(own.tail)
        assert (
            decode_properties(stored)
            == {name: value for name, value in sent.items() if name != "WAIT"} | added
        )
        assert stored.endswith(own.tail)
        assert waits == (sent.get("WAIT") != "false")
        if sent.keys() & {"DELAY", "TIMER_DELAY_SEC"}:
            assert kind is Kind.SPECIAL
        elif "TRAN_MSG" in sent:
            assert kind is not Kind.PLAIN
        if kind is Kind.HALF:
            assert sent["TRAN_MSG"] == "true"
            assert not sent.keys() & {"DELAY", "TIMER_DELAY_SEC"}


def test_a_message_with_nothing_but_its_unique_key() -> None:
    own = OwnProperties(BrokerConfig())
    for end in ("", "\x02", "\x02WAIT\x01true", "\x02WAIT\x01true\x02"):
        for key in ("U1", "U2"):
            stored = f"UNIQ_KEY\x01{key}\x02{own.tail}"
            assert own.to_store(f"UNIQ_KEY\x01{key}{end}") == (stored, True, Kind.PLAIN)


def test_a_half_message_as_clients_send_it() -> None:
    own = OwnProperties(BrokerConfig())
    for text in ("UNIQ_KEY\x01U\x02WAIT\x01true\x02TRAN_MSG\x01true\x02PGROUP\x01pg",) * 2:
        assert own.to_store(text)[2] is Kind.HALF


@pytest.mark.slow
def test_what_is_known_does_not_grow_with_what_peers_send() -> None:
    own = OwnProperties(BrokerConfig())
    for number in range(10_000):
        own.to_store(f"UNIQ_KEY\x01U\x02KEYS\x01{number}")
        own.to_store(f"UNIQ_KEY\x01U\x02KEYS\x01{number:030000d}")
    assert sum(map(len, own._known)) < 200_000
