"""Rules of accounts, judged as Apache 4.9's brokers judge, from their words to their gaps."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.acl import produces_as, reads_of, sends_to
from lanemq.proxy.acl._accounts import DENY, PUB, SUB, Account, Accounts
from lanemq.proxy.acl._addresses import WhiteList, parse_patterns
from lanemq.proxy.acl._rules import lacking_of, refusal_of
from lanemq.proxy.acl._signature_check import SignatureCheck
from lanemq.proxy.net._turns import all_steps
from lanemq.testkit.proxy.brokers import pull_header, send_header, signed
from lanemq.wire import Refused, RequestCode, signature
from lanemq.wire.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from lanemq.wire.frame import Frame, request
from lanemq.wire.requests import REQUESTS, Right

HOST = "10.1.2.3"
KEY, SECRET = "clerk12", "secret-of-clerk"


def account(
    *,
    key: str = KEY,
    is_admin: bool = False,
    topic_default: int = DENY,
    group_default: int = DENY,
    white: str = "",
    **permissions: int,
) -> Account:
    return Account(
        access_key=key,
        signatures=SignatureCheck(SECRET),
        white_list=WhiteList(parse_patterns(white)),
        is_admin=is_admin,
        default_topic_permission=topic_default,
        default_group_permission=group_default,
        permissions={
            name.replace("group_", "%RETRY%").replace("kv_", "%KV%"): value
            for name, value in permissions.items()
        },
    )


def accounts(*given: Account, white: str = "") -> Accounts:
    return Accounts(
        by_key={one.access_key: one for one in given}, white_list=WhiteList(parse_patterns(white))
    )


def ask(
    code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", *, key: str = KEY
) -> Frame:
    return request(code, signed(fields or {}, body, key, SECRET), body)


def send(topic: str, *, producer_group: str = "pg") -> Frame:
    header = send_header(topic, producer_group=producer_group)
    return ask(310, header.to_letters(), b"body")


def judge(who: Account, frame: Frame, host: str = HOST) -> str | None:
    why = refusal_of(accounts(who), frame, host)
    return why if why is None or isinstance(why, str) else all_steps(why)


# Who sends it


def test_a_request_of_nobody_is_refused() -> None:
    assert judge(account(), request(310)) == "No accessKey is configured"


def test_an_account_that_does_not_exist_is_named() -> None:
    frame = ask(34, key="stranger")
    assert judge(account(), frame) == "No acl config for stranger"


@pytest.mark.parametrize("given", [None, "", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "ä\ud800"])
def test_a_signature_that_is_missing_or_made_up_is_refused(given: str | None) -> None:
    fields = dict(send("T").fields)
    fields.pop("Signature")
    if given is not None:
        fields["Signature"] = given
    refusal = judge(account(T=PUB), request(310, fields, b"body"))
    assert refusal == f"Check signature failed for accessKey={KEY}"


@pytest.mark.parametrize(
    ("changed", "body"),
    [({"b": "Other"}, b"body"), ({"x": "more"}, b"body"), ({}, b"Body"), ({}, b"")],
)
def test_a_request_that_was_changed_is_refused(changed: dict[str, str], body: bytes) -> None:
    frame = send("T")
    assert judge(account(T=PUB, Other=PUB), frame) is None
    forged = request(310, {**frame.fields, **changed}, body)
    refusal = judge(account(T=PUB, Other=PUB), forged)
    assert refusal == f"Check signature failed for accessKey={KEY}"


@given(
    secret=st.text(min_size=1, max_size=100),
    names=st.lists(st.text(max_size=3), max_size=6, unique=True),
    values=st.lists(st.text(max_size=5), min_size=6, max_size=6),
    body=st.binary(max_size=100),
)
def test_signatures_are_those_of_clients_the_first_time_and_later(
    secret: str, names: list[str], values: list[str], body: bytes
) -> None:
    check = SignatureCheck(secret)
    for turn in range(3):
        fields = {name: f"{turn}{value}" for name, value in zip(names, values, strict=False)}
        frame = request(10, signed(fields, body, KEY, secret), body)
        assert check.is_signed(frame)
        assert not check.is_signed(request(10, {**frame.fields, "Signature": "x"}, body))
        assert not check.is_signed(request(10, frame.fields, body + b"x"))
        assert not SignatureCheck(secret + "x").is_signed(frame)


def test_a_flag_that_clients_add_after_signing_does_no_harm() -> None:
    frame = ask(12, {"topic": "T", "key": "k"})
    flagged = request(12, {**frame.fields, "_UNIQUE_KEY_QUERY": "true"})
    assert judge(account(T=SUB), flagged) is None


def test_a_flag_that_later_clients_sign_does_none_either() -> None:
    """5.3.3 adds the flag first, and signs it; the brokers of 4.9 refuse that."""
    fields = {"topic": "T", "key": "k", "_UNIQUE_KEY_QUERY": "true", "AccessKey": KEY}
    content = "".join(fields[name] for name in sorted(fields)).encode()
    frame = request(12, {**fields, "Signature": signature(content, SECRET)})
    for _ in range(2):
        assert judge(account(T=SUB), frame) is None
    forged = request(12, {**frame.fields, "key": "K"})
    assert judge(account(T=SUB), forged) is not None


def test_addresses_on_the_white_list_of_all_need_no_signature() -> None:
    everybody = accounts(account(), white="10.1.2.*")
    assert refusal_of(everybody, request(17), "10.1.2.77") is None
    assert refusal_of(everybody, request(17), "10.1.3.77") == "No accessKey is configured"


def test_addresses_on_the_white_list_of_an_account_need_only_its_name() -> None:
    clerk = account(white=HOST)
    unsigned = request(17, {"AccessKey": KEY})
    assert judge(clerk, unsigned) is None
    assert judge(clerk, unsigned, "10.9.9.9") == f"Check signature failed for accessKey={KEY}"
    assert judge(clerk, request(17, {"AccessKey": "other12"})) == "No acl config for other12"


def test_a_signature_from_an_address_on_the_white_list_of_an_account_has_to_be_right() -> None:
    """Behind a proxy every client has the proxy's address, and the proxy takes what is signed."""
    clerk = account(white=HOST)
    assert judge(clerk, ask(17, {"topic": "T"})) is None
    for invented in ("x", ""):
        forged = request(17, {"AccessKey": KEY, "topic": "T", "Signature": invented})
        assert judge(clerk, forged) == f"Check signature failed for accessKey={KEY}"


@pytest.mark.parametrize(
    ("pattern", "host", "is_in"),
    [
        ("*", "10.1.2.3", True),
        ("*.*.*.*", "::1", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.30", False),
        ("10.1.2.*", "10.1.20.3", False),
        ("192.168.1-5.*", "192.168.5.9", True),
        ("192.168.1-5.*", "192.168.6.9", False),
        ("10.1.1.{2,4}", "10.1.1.4", True),
        ("10.1.1.{2,4}", "10.1.1.3", False),
        ("10.1.1.2,10.1.1.4", "10.1.1.4", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("1ac3:78b6::1-200:*", "1ac3:78b6::1ff:9", True),
        ("1ac3:78b6::1-200:*", "1ac3:78b6::201:9", False),
        ("fe80:*", "fe80::1", True),
        ("fe80:*", "fe81::1", False),
        ("10.1.2.*", "a name", False),
        ("::ffff:10.1.2.3", "10.1.2.3", True),
        ("::FFFF:10.1.2.*", "10.1.2.9", True),
        ("::ffff:10.1.2.3", "10.1.2.4", False),
        ("::ffff:a01:203", "10.1.2.3", True),
        ("::ffff:a01:*", "10.1.2.3", True),
        ("::ffff:a01:*", "10.2.2.3", False),
        ("10.1.2.3", "::ffff:10.1.2.3", True),
        ("0-1:*:*:*:*:*:*:*", "10.1.2.3", False),
        ("::ffff-ffff:*:*", "10.1.2.3", True),
        ("", "10.1.2.3", False),
    ],
)
def test_patterns_of_addresses(pattern: str, host: str, is_in: bool) -> None:
    assert WhiteList(parse_patterns(pattern)).admits(host) is is_in


@pytest.mark.parametrize(
    "pattern",
    [
        "10.1.2",
        "10.1.2.256",
        "10.1.2.5-3",
        "10.1.2.-3",
        "host",
        "1::2::3",
        "1:2:3",
        "::1-2-3",
        "::x",
        "::ffff:0:10.1.2.3",
        "fe80::1%eth0",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=re.escape(pattern)):
        parse_patterns(pattern)


def test_an_overheard_request_is_signed_as_another_one_too() -> None:
    """The protocol signs neither codes nor names of fields, as docs/security.md says."""
    chief = account(is_admin=True)
    overheard = ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "ab", "x": "c"})
    assert judge(chief, overheard) is None
    for fields in ({}, {"topic": "a", "x": "bc"}, {"x": "", "y": "c"}):
        forged = request(RequestCode.DELETE_TOPIC_IN_BROKER, {**overheard.fields, **fields})
        assert judge(chief, forged) is None
    assert judge(chief, request(215, {**overheard.fields, "topic": "other"})) is not None
    clerk = account(ab=SUB)  # its rights bound what that is worth
    assert judge(clerk, overheard) is None
    assert "Need admin" in str(judge(clerk, request(215, overheard.fields)))


# What the sender may


@pytest.mark.parametrize(
    ("who", "refusal"),
    [
        (account(T=PUB), None),
        (account(T=PUB | SUB), None),
        (account(T=SUB), "No default permission for topic:T"),
        (account(T=DENY, topic_default=PUB), "No default permission for topic:T"),
        (account(topic_default=PUB), None),
        (account(), "No default permission for topic:T"),
        (account(is_admin=True), None),
        # An administrator whose topics are listed may no more than that, as at Apache's.
        (account(is_admin=True, Other=PUB), "No default permission for topic:T"),
    ],
)
def test_sends_need_to_publish_to_the_topic(who: Account, refusal: str | None) -> None:
    for code in (310, 320):
        frame = ask(code, send_header("T").to_letters(), b"body")
        assert judge(who, frame) == refusal, code
    assert judge(who, ask(10, send_header("T").to_fields(), b"body")) == refusal


def test_sends_to_a_retry_topic_need_its_group_and_the_one_that_is_named() -> None:
    reader = account(topic_default=PUB | SUB, group_g=SUB)
    assert judge(reader, send("%RETRY%g", producer_group="g")) is None
    for topic, group in (("%RETRY%g", "other"), ("%RETRY%other", "g")):
        refusal = judge(reader, send(topic, producer_group=group))
        assert refusal == "No default permission for group:other"
    long_header = ask(10, send_header("%RETRY%other").to_fields(), b"body")
    assert judge(reader, long_header) == "No default permission for group:other"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_whatever_is_called_after_a_group_is_the_groups(depth: int) -> None:
    """A right to all other topics and groups is none to it, and a denial is one of all of it."""
    others = PUB | SUB
    member = account(group_g=SUB)
    stranger = account(topic_default=others, group_default=others, group_g=DENY)
    for prefixes in itertools.product(("%RETRY%", "%DLQ%"), repeat=depth):
        name = "".join(prefixes) + "g"
        frames = {
            "a send": send(name, producer_group="g"),
            "a group": ask(35, {"consumerGroup": name}),
            "a group that sends back": ask(36, {"group": name}),
            "its progress": ask(14, {"consumerGroup": name, "topic": name, "queueId": "0"}),
            "the topic's settings": ask(351, {"topic": name}),
        }
        for what, frame in frames.items():
            assert judge(member, frame) is None, (what, name)
            refusal = judge(stranger, frame)
            assert refusal == "No default permission for group:g", (what, name)
        for touched in (sends_to(name), reads_of(name), produces_as(name)):
            assert lacking_of(accounts(member), KEY, touched) is None, touched
            assert lacking_of(accounts(stranger), KEY, touched) is not None, touched
    denied = account(group_default=others, group_g=DENY)
    named = replace(denied, permissions={**denied.permissions, "%DLQ%g": SUB})
    assert judge(named, ask(351, {"topic": "%DLQ%g"})) is None, "a permission that names it"
    assert judge(named, ask(351, {"topic": "%RETRY%%DLQ%g"})) is not None


def test_replies_need_a_topic_for_replies_or_one_to_publish_to() -> None:
    for code, letters in ((324, False), (325, True)):

        def reply_to(topic: str, code: int = code, letters: bool = letters) -> Frame:
            header = send_header(topic)
            return ask(code, header.to_letters() if letters else header.to_fields(), b"body")

        assert judge(account(), reply_to("DefaultCluster_REPLY_TOPIC")) is None
        assert judge(account(), reply_to("T")) == "No default permission for topic:T"
        assert judge(account(T=PUB), reply_to("T")) is None


@pytest.mark.parametrize("code", [11, 361])
def test_pulls_need_topic_and_group(code: int) -> None:
    frame = ask(code, pull_header("T", 0, 0).to_fields())
    assert judge(account(T=SUB, group_g=SUB), frame) is None
    assert judge(account(T=PUB, group_g=SUB), frame) == "No default permission for topic:T"
    assert judge(account(T=SUB), frame) == "No default permission for group:g"


@pytest.mark.parametrize(
    ("code", "fields", "who", "refusal"),
    [
        (12, {"topic": "T"}, account(), "No default permission for topic:T"),
        (36, {"group": "g"}, account(T=SUB), "No default permission for group:g"),
        (36, {"group": "g"}, account(group_g=SUB), None),
        (35, {"consumerGroup": "g"}, account(), "No default permission for group:g"),
        (35, {"producerGroup": "g"}, account(), None),
        (38, {"consumerGroup": "g"}, account(), "No default permission for group:g"),
        (
            15,
            {"consumerGroup": "g", "topic": "T"},
            account(group_g=SUB),
            "No default permission for topic:T",
        ),
        (15, {"consumerGroup": "g", "topic": "T"}, account(group_g=SUB, T=SUB), None),
    ],
)
def test_requests_about_groups_need_them(
    code: int, fields: dict[str, str], who: Account, refusal: str | None
) -> None:
    assert judge(who, ask(code, fields)) == refusal


def test_heartbeats_need_every_group_and_topic_that_they_name() -> None:
    data = HeartbeatData(
        client_id="id",
        producer_data_set=(ProducerData("anything"),),
        consumer_data_set=(
            ConsumerData(
                group_name="g",
                subscription_data_set=(
                    SubscriptionData.of_tags("T", "*"),
                    SubscriptionData.of_tags("%RETRY%g", "*"),
                ),
            ),
        ),
    )
    frame = ask(34, body=data.encode())
    assert judge(account(T=SUB, group_g=SUB), frame) is None
    assert judge(account(group_g=SUB), frame) == "No default permission for topic:T"
    assert judge(account(T=SUB), frame) == "No default permission for group:g"


def test_keys_need_the_topic_of_their_namespace() -> None:
    reader = account(kv_shop=SUB)
    assert judge(reader, ask(310422, {"namespace": "shop", "key": ""})) is None
    refusal = judge(reader, ask(310421, {"namespace": "shop"}))
    assert refusal == "No default permission for topic:%KV%shop"
    refusal = judge(reader, ask(310424))
    assert refusal == "No default permission for topic:%KV%default"


ADMIN_CODES = [
    code
    for code, spec in REQUESTS.items()
    if any(touch.account is Right.ADMIN for touch in spec.touches)
]


@pytest.mark.parametrize("code", ADMIN_CODES)
def test_some_requests_are_for_administrators(code: int) -> None:
    frame = ask(code, {"topic": "T"}, b'{"groupName":"g"}')
    refusal = judge(account(topic_default=PUB | SUB, group_default=SUB), frame)
    assert refusal == (f"Need admin permission for request code={code}, but accessKey={KEY} is not")
    assert judge(account(is_admin=True), frame) is None


def test_apaches_administrators_requests_are_among_them() -> None:
    assert {17, 25, 200, 207, 215} <= set(ADMIN_CODES)


def test_whoever_has_an_account_may_leave_traces() -> None:
    assert judge(account(), send("RMQ_SYS_TRACE_TOPIC")) is None
    refusal = judge(
        account(group_g=SUB), ask(11, pull_header("RMQ_SYS_TRACE_TOPIC", 0, 0).to_fields())
    )
    assert refusal == "No default permission for topic:RMQ_SYS_TRACE_TOPIC"


def test_a_code_that_declares_nothing_is_nobodys() -> None:
    for code in (4711, RequestCode.POP_MESSAGE, RequestCode.CHECK_TRANSACTION_STATE):
        for who in (account(), account(is_admin=True)):
            with pytest.raises(Refused, match=f"request type {int(code)} not supported"):
                judge(who, ask(code, {"topic": "T"}))
