"""Requests are signed as the Java client signs them; the secret stays here."""

import base64
import json
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    BrokerCredentials,
    ClientOptions,
    ConcurrentListener,
    Credentials,
    PushOptions,
    open_remoting_client,
)
from lanemq.sdk.net._acl import sign
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode, seal, sealed_content, signature, signed_content
from lanemq.wire.frame import Frame, request

SIGNED_BY_JAVA = (
    Path(__file__).parents[2] / "compat_tests" / "vectors" / "filters" / "signatures.jsonl"
)
KEYS = Credentials(access_key="lanemq", secret_key="12345678")


def is_signed(frame: Frame) -> bool:
    content = signed_content(frame.fields, frame.body)
    return frame.fields.get("AccessKey") == "lanemq" and frame.fields.get("Signature") == signature(
        content, "12345678"
    )


def test_signatures_made_by_the_java_client_are_ours() -> None:
    cases = [json.loads(line) for line in SIGNED_BY_JAVA.read_text(encoding="utf-8").splitlines()]
    assert len(cases) >= 50
    for case in cases:
        credentials = Credentials(
            access_key=case["access_key"],
            secret_key=case["secret_key"],
            security_token=case["security_token"],
        )
        frame = Frame(10, fields=case["fields"], body=base64.b64decode(case["body"]))
        assert sign(frame, credentials, "b:1").fields["Signature"] == case["signature"], case


@given(st.dictionaries(st.text(), st.text()), st.binary(), st.text(min_size=1))
def test_whatever_changes_in_a_request_changes_its_signature(
    fields: dict[str, str], body: bytes, more: str
) -> None:
    frame = sign(Frame(10, fields=fields, body=body), KEYS, "b:1")
    assert is_signed(frame)
    assert frame.body == body
    assert fields.items() <= {**frame.fields, **fields}.items()
    changed = sign(Frame(10, fields={**fields, "~": more}, body=body), KEYS, "b:1")
    assert changed.fields["Signature"] != frame.fields["Signature"]
    assert sign(frame, KEYS, "b:1") == frame  # an attempt that is repeated


def test_a_flag_that_clients_add_later_is_not_signed() -> None:
    frame = request(RequestCode.QUERY_MESSAGE, {"key": "k"})
    flagged = request(RequestCode.QUERY_MESSAGE, {"key": "k", "_UNIQUE_KEY_QUERY": "true"})
    assert (
        sign(frame, KEYS, "b:1").fields["Signature"]
        == sign(flagged, KEYS, "b:1").fields["Signature"]
    )


def test_the_secret_is_not_shown() -> None:
    credentials = Credentials(access_key="who", secret_key="hush", security_token="shh")
    assert repr(credentials) == "Credentials(access_key='who')"
    with pytest.raises(ValueError, match="secret_key"):
        Credentials(access_key="who", secret_key="")


async def test_every_request_of_a_consumer_is_signed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")

    async def handle(messages: object) -> None:
        pass

    async with push_consumer_of(
        cluster, ConcurrentListener(handle), PushOptions(client=ClientOptions(credentials=KEYS))
    ) as consumer:
        await trio.sleep(40)
        answer = await cluster.broker.ask(
            consumer.client_id,
            request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                {"topic": "T", "group": "cg", "clientAddr": consumer.client_id},
            ),
        )
    assert answer.code == 0
    asked = cluster.broker.requests + cluster.name_server_nodes[0].requests
    assert {
        RequestCode.PULL_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.UPDATE_CONSUMER_OFFSET,
    } <= {frame.code for frame in asked}
    assert all(is_signed(frame) for frame in asked if not frame.is_response)


async def test_one_way_requests_are_signed_as_well(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with open_remoting_client(credentials=KEYS, dial=cluster.dial) as client:
        await client.oneway(cluster.broker.address, request(1000, {"a": "b"}, oneway=True))
        await trio.sleep(1)
    (frame,) = cluster.broker.requests
    assert is_signed(frame)


@given(st.dictionaries(st.text(), st.text()), st.binary())
def test_a_broker_seals_its_requests_and_signs_none(fields: dict[str, str], body: bytes) -> None:
    broker = BrokerCredentials(access_key=KEYS.access_key, secret_key=KEYS.secret_key)
    frame = sign(Frame(10, fields=fields, body=body), broker, "b:1")
    content = sealed_content(10, frame.fields, body)
    assert frame.fields["lanemqSeal"] == seal(content, KEYS.secret_key)
    assert frame.fields["lanemqSealedFor"] == "b:1"
    assert frame.fields.keys() - fields.keys() <= {
        "AccessKey",
        "lanemqSeal",
        "lanemqSealedFor",
        "lanemqSealedAt",
    }


def test_a_request_that_is_passed_on_loses_its_clients_signature() -> None:
    """Whoever registers as a broker gets what clients ask of the queues there."""
    theirs = Credentials(access_key="chief12", secret_key="hush-hush", security_token="t")
    asked = sign(request(RequestCode.QUERY_MESSAGE, {"topic": "T"}), theirs, "10.0.0.1:10911")
    assert "Signature" in asked.fields, "the control"
    ours = BrokerCredentials(access_key="inner12", secret_key="secret-of-inner")
    passed_on = sign(asked, ours, "10.0.0.66:10911")
    content = sealed_content(passed_on.code, passed_on.fields, passed_on.body)
    assert passed_on.fields["lanemqSeal"] == seal(content, "secret-of-inner")
    assert not {"Signature", "SecurityToken"} & passed_on.fields.keys()
    assert passed_on.fields["topic"] == "T"
