"""A request that a broker sent to another one cannot be sent on by whoever got it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanemq.proxy.acl._signature_check import SEAL_AGE_MS, SignatureCheck, misdirected
from lanemq.testkit.proxy.accounts import ACCOUNTS, KINDS, open_guarded_broker
from lanemq.testkit.proxy.brokers import ADDRESS, TestBroker, sealed
from lanemq.wire import (
    SEAL_FIELD,
    SEALED_AT_FIELD,
    SEALED_FOR_FIELD,
    SIGNATURE_FIELD,
    RequestCode,
    sealed_content,
)
from lanemq.wire.frame import Frame, request

INNER = ("inner12", "secret-of-inner")
INNER_ACCOUNT = "  - {accessKey: inner12, secretKey: secret-of-inner, admin: true}\n"
HERE = str(ADDRESS)
ELSEWHERE = "10.0.0.66:10911"
CHECK = SignatureCheck(INNER[1])

fields = st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=5)


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    inner = '{{"accessKey":"{}","secretKey":"{}"}}'.format(*INNER)
    async with open_guarded_broker(
        tmp_path,
        request.param,
        accounts=ACCOUNTS + INNER_ACCOUNT,
        inner_client_authentication_credentials=inner,
    ) as broker:
        yield broker


async def code_of(broker: TestBroker, frame: Frame) -> int:
    peer = broker.connect().peer
    await peer.send(replace(frame, opaque=7))
    return (await peer.receive()).code


def asked(code: int = RequestCode.GET_BROKER_CONFIG, /, **more: str) -> Frame:
    return request(code, more)


async def test_a_broker_lets_in_what_is_sealed_for_it(broker: TestBroker) -> None:
    frame = sealed(asked(), *INNER, HERE)
    assert SIGNATURE_FIELD not in frame.fields, "a signature could be sent on as anything"
    assert await code_of(broker, frame) == 0
    assert await code_of(broker, asked()) != 0, "the control"


async def test_what_was_sealed_for_another_is_refused(broker: TestBroker) -> None:
    frame = sealed(asked(), *INNER, ELSEWHERE)
    assert await code_of(broker, frame) != 0
    fields = dict(frame.fields)
    for changed in (
        {**fields, SEALED_FOR_FIELD: HERE},
        {name: value for name, value in fields.items() if name != SEAL_FIELD},
        {**fields, SIGNATURE_FIELD: fields[SEAL_FIELD], SEAL_FIELD: ""},
        {name: value for name, value in fields.items() if name != SEALED_FOR_FIELD},
    ):
        assert await code_of(broker, replace(frame, fields=changed)) != 0, changed


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.AUTH_CREATE_USER,
    ],
)
async def test_a_sealed_request_is_no_other_one(broker: TestBroker, code: int) -> None:
    frame = sealed(asked(topic="T"), *INNER, HERE)
    assert await code_of(broker, replace(frame, code=code)) != 0
    renamed = {**frame.fields, "accessKey": frame.fields["topic"]}
    assert await code_of(broker, replace(frame, fields=renamed)) != 0
    assert await code_of(broker, replace(frame, body=b"{}")) != 0


@given(fields, st.binary(max_size=20), fields, st.binary(max_size=20), st.booleans())
def test_no_two_requests_have_one_seal(
    one: dict[str, str], body: bytes, other: dict[str, str], other_body: bytes, same_code: bool
) -> None:
    is_same = same_code and one == other and body == other_body
    code = 10 if same_code else 11
    assert (sealed_content(10, one, body) == sealed_content(code, other, other_body)) is is_same


@given(fields, st.binary(max_size=20), st.integers(-(10**9), 10**9))
def test_a_seal_holds_for_a_while_and_for_its_receiver(
    some: dict[str, str], body: bytes, later_ms: int
) -> None:
    frame = sealed(Frame(10, fields=some, body=body), *INNER, HERE)
    assert CHECK.is_signed(frame)
    now_ms = int(frame.fields[SEALED_AT_FIELD]) + later_ms
    assert (misdirected(frame, {HERE}, lambda: now_ms) is None) is (abs(later_ms) <= SEAL_AGE_MS)
    assert misdirected(frame, {ELSEWHERE}, lambda: now_ms) is not None
    assert sealed(frame, *INNER, HERE).fields.keys() == frame.fields.keys()  # a repeated attempt


@pytest.mark.parametrize("time", ["", "x", "9" * 5000, "-1", "1e3"])
def test_a_seal_without_a_time_is_none(time: str) -> None:
    frame = sealed(asked(), *INNER, HERE)
    odd = replace(frame, fields={**frame.fields, SEALED_AT_FIELD: time})
    assert misdirected(odd, {HERE}, lambda: 1_700_000_000_000) is not None
