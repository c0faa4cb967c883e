"""Requests that are almost right: every code, with one thing about it that is wrong."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from lanemq.wire.frame import Frame, SerializeType, encode_frame
from lanemq.wire.requests import REQUESTS

from ._values import COUNTS, EXPRESSIONS, PROPERTY_STRINGS, member, text

SANE: Final[dict[str, str]] = {
    "topic": "T",
    "consumerGroup": "g",
    "producerGroup": "p",
    "group": "g",
    "groupName": "g",
    "clientID": "id",
    "clientId": "id",
    "brokerName": "broker",
    "brokerAddr": "127.0.0.1:10911",
    "clusterName": "DefaultCluster",
    "queueId": "0",
    "queueOffset": "0",
    "commitOffset": "0",
    "offset": "0",
    "maxMsgNums": "32",
    "maxNum": "32",
    "sysFlag": "6",
    "suspendTimeoutMillis": "200",
    "subscription": "*",
    "expressionType": "TAG",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "bornTimestamp": "1700000000000",
    "properties": "KEYS\x01k\x02TAGS\x01a\x02",
    "key": "k",
    "namespace": "ORDER_TOPIC_CONFIG",
    "value": "v",
    "reconsumeTimes": "0",
    "delayLevel": "1",
    "timestamp": "0",
    "beginTimestamp": "0",
    "endTimestamp": "9223372036854775807",
}
COUNTED: Final = frozenset(
    {"maxMsgNums", "maxNum", "defaultTopicQueueNums", "readQueueNums", "writeQueueNums", "limit"}
    | {"count", "queueId", "waitMillis", "suspendTimeoutMillis", "partitions", "topicNums"}
    | {"d", "e"}
)
"""Fields with a number of which a server might make a list."""
BODY_CODES: Final = (34, 35, 41, 42, 46, 200, 25, 318, 103, 10, 310, 320, 221, 222, 400, 401)
CODES: Final = tuple(sorted({*map(int, RequestCode), 0, -1, 9999}))


def _queue(queue_id: int) -> dict[str, object]:
    return {"topic": "T", "brokerName": "broker", "queueId": queue_id}


def _bodies() -> tuple[object, ...]:
    heartbeat = HeartbeatData(
        client_id="id",
        producer_data_set=(ProducerData("p"),),
        consumer_data_set=(
            ConsumerData("g", subscription_data_set=(SubscriptionData.of_tags("T", "a || b"),)),
        ),
    )
    queues = [_queue(number) for number in range(3)]
    group = {"groupName": "g", "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    topics = {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}}
    many = {"topicName": "M", "readQueueNums": 2 * 10**9, "writeQueueNums": 10**6, "perm": 6}
    sql = SubscriptionData("T", EXPRESSIONS[7], sub_version=1, expression_type="SQL92")
    filtering = HeartbeatData(
        client_id="id",
        consumer_data_set=(ConsumerData("g", subscription_data_set=(sql,)),),
    )
    version = {"timestamp": 1, "counter": 1, "stateVersion": 0}
    return (
        json.loads(heartbeat.encode()),
        {"consumerGroup": "g", "clientId": "id", "mqSet": queues},
        group,
        {"clientId": "id", "group": "g", "subscriptionData": {"topic": "T", "subString": "*"}},
        {
            "topicConfigSerializeWrapper": {"topicConfigTable": topics, "dataVersion": version},
            "filterServerList": [],
        },
        {"topicConfigTable": topics, "dataVersion": version},
        {
            "topicConfigSerializeWrapper": {
                "topicConfigTable": {"M": many},
                "dataVersion": version,
            },
            "filterServerList": [],
        },
        json.loads(filtering.encode()),
        {"offsetTable": {"T@g": {"0": 1}}},
        queues,
    )


BODIES: Final = _bodies()
REPEATED_MAX: Final = 4000
"""Bytes of a document that may also come a thousand times."""
PROPERTIES: Final = (
    "maxMessageSize", "fileReservedTime", "brokerPermission", "autoCreateTopicEnable",
    "scanNotActiveBrokerInterval", "orderMessageEnable", "flushDiskType", "storePathRootDir",
    "defaultQueryMaxNum", "maxTransferBytesOnMessageInMemory", "unknownKey", "configBlackList",
)  # fmt: skip


def changed(document: Any, rng: random.Random) -> Any:  # noqa: ANN401 - whatever JSON may have
    """Return the document with one member that is wrong, missing, or too much."""
    if isinstance(document, dict) and document and rng.random() < 0.8:
        key = rng.choice(list(document))
        copied = dict(document)
        kind = rng.randrange(5)
        if kind == 0:
            del copied[key]
        elif kind == 1:
            copied[text(rng)] = member(rng)
        else:
            copied[key] = changed(document[key], rng)
        return copied
    if isinstance(document, list) and document and rng.random() < 0.8:
        changed_list = list(document)
        at = rng.randrange(len(changed_list))
        changed_list[at] = changed(changed_list[at], rng)
        return changed_list
    return member(rng)


def body(rng: random.Random) -> bytes:
    """Return a body: JSON with a mistake, properties, something cut off, or bytes."""
    kind = rng.randrange(10)
    if kind < 6:
        data = json.dumps(changed(rng.choice(BODIES), rng)).encode()
        if len(data) < REPEATED_MAX and rng.random() < 0.1:
            data = b"[" + b",".join([data] * 1000) + b"]"
        return data if kind < 5 else data[: rng.randrange(len(data) + 1)]
    if kind == 6:
        lines = (f"{rng.choice(PROPERTIES)}={text(rng)[:5000]}" for _ in range(rng.randint(1, 4)))
        return "\n".join(lines).encode("utf-8", "replace")
    if kind == 7:
        return rng.randbytes(rng.choice((0, 1, 100, 100_000)))
    if kind == 8:
        return b"[" * rng.choice((100, 100_000)) + b'{"a":' * rng.choice((1, 10_000))
    return b"x" * rng.choice((1, 1000, 4_000_000))


def frame(rng: random.Random, opaque: int) -> Frame:
    """Return one request."""
    code = rng.choice(BODY_CODES) if rng.random() < 0.3 else rng.choice(CODES)
    spec = REQUESTS.get(code)
    header = None if spec is None else spec.header
    fields: dict[str, str] = {}
    if header is not None:
        for field in msgspec.structs.fields(header):
            if field.required or rng.random() < 0.5:
                name = field.encode_name
                fields[name] = SANE.get(name, "0" if rng.random() < 0.7 else "a")
    for name in tuple(fields):
        if name in COUNTED and rng.random() < 0.1:
            fields[name] = rng.choice(COUNTS)
        if name in ("properties", "i") and rng.random() < 0.2:
            fields[name] = rng.choice(PROPERTY_STRINGS)
        if name in ("subscription", "expressionType") and rng.random() < 0.2:
            fields |= {"subscription": rng.choice(EXPRESSIONS), "expressionType": "SQL92"}
    if fields and rng.random() < 0.8:
        name = rng.choice(list(fields))
        if rng.random() < 0.2:
            del fields[name]
        else:
            fields[name] = text(rng)
    if rng.random() < 0.1:
        fields[text(rng)[:100]] = text(rng)
    has_body = code in BODY_CODES or rng.random() < 0.3
    return Frame(
        code=code,
        opaque=opaque,
        flag=2 if rng.random() < 0.05 else 0,
        fields=fields,
        body=body(rng) if has_body else b"",
        language=rng.choice(("JAVA", "GO", "CPP")),
        version=rng.choice((0, 115, 252, 317, 401, 409, 493)),
        serialize=SerializeType.JSON if rng.random() < 0.7 else SerializeType.ROCKETMQ,
    )


HALF_HANDSHAKES: Final = 0.05
"""Part of the connections that begin with half a handshake."""


def half_handshake(rng: random.Random) -> bytes:
    """Return the begin of a TLS handshake, as a connection's first bytes; it never ends."""
    promised = rng.choice((0, 1, 512, 1 << 14, 0xFFFF))
    sent = rng.randrange(promised + 1)
    return b"\x16\x03\x01" + promised.to_bytes(2) + b"\x01" + rng.randbytes(sent)


def encoded(rng: random.Random, opaque: int) -> bytes:
    """Return the bytes of a request; some of them spoiled, or without an end."""
    while True:
        try:
            data = encode_frame(frame(rng, opaque))
            break
        except (ValueError, UnicodeError):  # one that cannot even be written
            continue
        except Exception as error:
            if type(error).__module__.startswith("lanemq."):
                continue
            raise
    kind = rng.randrange(40)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(1) + data[at + 1 :]
    if kind == 2:
        return rng.randbytes(rng.choice((4, 8, 100)))
    return data


def sequences(seed: str) -> Iterator[list[bytes]]:
    """Iterate over the bytes one peer sends over its connections, one list for each."""
    rng = random.Random(seed)
    opaque = 0
    while True:
        requests = [half_handshake(rng)] if rng.random() < HALF_HANDSHAKES else []
        for _ in range(rng.choice((1, 3, 10, 30))):
            opaque += 1
            requests.append(encoded(rng, opaque))
        yield requests
