"""Requests that name very much are checked in turns, before anything more of their peer is handled.

Work is counted in calls between two turns of the loop, as in ``test_longest_turns``.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from lanemq.testkit.calls import calls_of_steps, calls_of_this_thread
from lanemq.testkit.proxy.accounts import CHIEF, KINDS, open_guarded_broker
from lanemq.testkit.proxy.brokers import TestBroker
from lanemq.testkit.proxy.keys import Keys
from lanemq.wire import RequestCode, fastjson
from lanemq.wire.bodies import (
    AclInfo,
    LockBatch,
    MessageQueue,
    PolicyEntryInfo,
    PolicyInfo,
    TopicConfig,
    TopicConfigList,
    UserInfo,
)
from lanemq.wire.frame import Frame
from lanemq.wire.kv import STEPS_MAX, Action, OpType, Step, encode_steps
from lanemq.wire.requests import REQUESTS, InBody
from lanemq.wire.requests import Keys as KeysNamed

CALLS_MAX: Final = 5000
"""Calls between two turns beside those that read a body, half a millisecond."""
MANY: Final = 7000
OTHER: Final = ("other123", "secret-of-other")
ACCOUNTS: Final = """
accounts:
  - {accessKey: chief12, secretKey: secret-of-chief, admin: true}
  - accessKey: other123
    secretKey: secret-of-other
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: PUB|SUB
    topicPerms: ["%KV%shop/*=PUB|SUB", "%KV%shop/hidden/*=DENY", hidden=DENY]
"""


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, request.param, accounts=ACCOUNTS) as broker:
        chief = broker.connect(account=CHIEF)
        if request.param == "5.x":
            await make_user(broker)
        assert (await Keys(chief, "shop").put(b"k", b"value")).code == 0
        yield broker


async def make_user(broker: TestBroker) -> None:
    chief, (name, password) = broker.connect(account=CHIEF), OTHER
    body = UserInfo(None, password, None).encode()
    answer = await chief.call(RequestCode.AUTH_CREATE_USER, {"username": name}, body)
    assert answer.code == 0, answer.remark
    entries = [
        PolicyEntryInfo(resource, ("All",), None, decision)
        for resource, decision in (
            ("Topic:*", "Allow"),
            ("Group:*", "Allow"),
            ("Topic:%KV%shop/*", "Allow"),
            ("Topic:%KV%shop/hidden/*", "Deny"),
            ("Topic:hidden", "Deny"),
        )
    ]
    body = AclInfo(f"User:{name}", (PolicyInfo("Custom", tuple(entries)),)).encode()
    answer = await chief.call(RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, body)
    assert answer.code == 0, answer.remark


def locks(*more: str) -> bytes:
    topics = [f"%KV%shop/k{number}" for number in range(MANY)]
    queues = tuple(MessageQueue(topic, "broker-a", 0) for topic in (*topics, *more))
    return LockBatch(consumer_group="g", client_id="c", mq_set=queues).encode()


def heartbeat(*more: str) -> bytes:
    topics = [f"%KV%shop/k{number}" for number in range(MANY)]
    consumer = {
        "groupName": "g",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [{"topic": topic, "subString": "*"} for topic in (*topics, *more)],
    }
    return fastjson.dumps({"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []})


def topics(*more: str) -> bytes:
    names = [f"%KV%shop/k{number}" for number in range(3500)]
    return TopicConfigList(tuple(TopicConfig(name, 4, 4) for name in (*names, *more))).encode()


def long_keys(*more: str) -> list[bytes]:
    count = STEPS_MAX - len(more)
    keys = [b"%04d" % number + b"\xff" * 3900 for number in range(count)]
    return keys + [one.removeprefix("%KV%shop/").encode() for one in more]


def multi_get(*more: str) -> bytes:
    return msgspec.msgpack.encode(long_keys(*more))


def deletes(*more: str) -> bytes:
    return encode_steps([Step(key, Action.DELETE) for key in long_keys(*more)])


BODIES: Final = {
    RequestCode.LOCK_BATCH_MQ: locks,
    RequestCode.UNLOCK_BATCH_MQ: locks,
    RequestCode.HEART_BEAT: heartbeat,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: topics,
    RequestCode.KV_MULTI_GET: multi_get,
    RequestCode.KV_WRITE: deletes,
}
FIELDS: Final = {"namespace": "shop", "opType": OpType.BATCH}


@pytest.mark.parametrize("code", BODIES)
async def test_a_request_that_names_very_much_is_checked_in_turns(
    broker: TestBroker, code: RequestCode
) -> None:
    client, body = broker.connect(account=OTHER), BODIES[code]("%KV%shop/hidden/one")
    reading = []
    for source in (touch.source for touch in REQUESTS[code].touches):
        with calls_of_this_thread() as calls:
            if isinstance(source, InBody):
                assert len(list(source.read(body))) > MANY / 4
            elif isinstance(source, KeysNamed):
                list(source.read(FIELDS, body))
        reading.append(calls.count)
    with calls_of_steps() as steps:
        answer = await client.call(code, FIELDS, body)
    assert "permission" in (answer.remark or ""), answer
    assert steps.most <= max(reading) + CALLS_MAX


async def test_requests_behind_one_that_names_very_much_are_handled_after_it(
    broker: TestBroker,
) -> None:
    client = broker.connect(account=OTHER)
    frames = [
        client.frame(RequestCode.KV_WRITE, FIELDS | {"opType": OpType.PUT}, body)
        for body in (encode_steps([Step(b"k", Action.PUT, b"1")]),)
    ]
    large = encode_steps([Step(b"k", Action.PUT, bytes(300_000)), Step(b"l", Action.DELETE)])
    for number, body in ((1, large), (2, encode_steps([Step(b"k", Action.PUT, b"2")]))):
        kind = OpType.BATCH if number == 1 else OpType.PUT
        frames.append(client.frame(RequestCode.KV_WRITE, FIELDS | {"opType": kind}, body))
    refused = multi_get("%KV%shop/hidden/one")
    frames.append(client.frame(RequestCode.KV_MULTI_GET, FIELDS, refused))
    await client.peer.send(*frames)
    answers = {}
    for _ in frames:
        answer = await client.peer.receive()
        assert isinstance(answer, Frame)
        answers[answer.opaque] = answer
    assert [answers[frame.opaque].code == 0 for frame in frames] == [True, True, True, False]
    entry = await Keys(client, "shop").get(b"k")
    assert entry is not None
    assert entry.value == b"2"
