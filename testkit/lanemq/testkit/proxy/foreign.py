"""Requests that touch what is not their sender's, in every form that optional fields allow.

A request of each code names objects of somebody else: all of them, or one beside the sender's own.
Fields that may be left away are left away, or empty, or there for no reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple, final

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatch,
    MessageQueue,
    ProducerData,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfig,
    TopicConfigList,
)
from lanemq.wire.frame import Frame
from lanemq.wire.kv import Action, Step, encode_key, encode_steps
from lanemq.wire.message import decode_offset_id
from lanemq.wire.requests import BodyKind, Field, InBody, Keys, RequestSpec, Right

from .brokers import Client

PLAIN: Final[Mapping[str, str]] = {
    "b": "victim",
    "a": "victim",
    "bornTimestamp": "1700000000000",
    "c": "TBW102",
    "clientAddr": "",
    "clientID": "id",
    "clientId": "id",
    "commitOrRollback": "12",
    "configType": "topics",
    "d": "4",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "delayLevel": "1",
    "expressionType": "TAG",
    "endTimestamp": "9223372036854775807",
    "key": encode_key(b"key"),
    "prefix": encode_key(b"key"),
    "begin": encode_key(b"key"),
    "end": encode_key(b"kez"),
    "cursor": encode_key(b"key"),
    "maxMsgNums": "32",
    "maxNum": "32",
    "op_type": "put",
    "opType": "put",
    "perm": "6",
    "producerGroup": "victim-tx",
    "properties": "TAGS\x01a\x02",
    "readQueueNums": "4",
    "statsName": "TOPIC_PUT_NUMS",
    "subscription": "*",
    "sysFlag": "4",
    "timestamp": "-1",
    "topicFilterType": "SINGLE_TAG",
    "tranStateTableOffset": "0",
    "writeQueueNums": "4",
}
"""Values of fields that name no object, fit to be accepted; "0" and "true" fit the others."""
SECRET: Final = b"for the owner's eyes"
OF_HALVES: Final = frozenset({RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE})
"""Requests that lead to a half message; others lead to a message."""
SUBSETS_MAX: Final = 6
"""Optional fields of which all subsets are left away; of more, each one, two, and all."""


@final
@dataclass(frozen=True)
class Stored:
    """Places of a foreign message, for requests that name no object but a place in the log."""

    position: int
    offset_id: str


async def store_foreign(owner: Client) -> tuple[Stored, Stored]:
    """Store a message and a half message in the owner's topic; return their places."""
    half = {"TRAN_MSG": "true", "PGROUP": "victim-tx", "UNIQ_KEY": "U1"}
    plain = await owner.send("victim", SECRET)
    prepared = await owner.send("victim", SECRET, half, sys_flag=4)
    return _place(plain), _place(prepared)


def _place(sent: Frame) -> Stored:
    assert sent.code == 0, sent.remark
    return Stored(decode_offset_id(sent.fields["msgId"])[1], sent.fields["msgId"])


class Attempt(NamedTuple):
    """The fields and the body of a request."""

    fields: dict[str, str]
    body: bytes


def attempts(spec: RequestSpec, stored: Stored, *, foreign: str, own: str) -> Iterator[Attempt]:
    """Iterate over requests of one code, each of which touches something foreign."""
    objects = [
        touch.source.name
        for touch in spec.touches
        if isinstance(touch.source, Field) and touch.account is not Right.NONE
    ]
    if _names_keys(spec):
        objects.append("namespace")
    header = {} if spec.header is None else _fields(spec, stored, foreign)
    optional = [name for name, is_required in _names(spec).items() if not is_required]
    bodies = list(_bodies(spec, foreign, own))
    for body in bodies:
        for left_away in _subsets(optional):
            fields = {name: value for name, value in header.items() if name not in left_away}
            yield Attempt(fields, body)
            yield Attempt(fields | dict.fromkeys(left_away, ""), body)
            yield Attempt(_decoys(own, spec) | fields, body)
        for name in objects:
            mixed = header | dict.fromkeys(objects, own) | {name: foreign}
            yield Attempt(mixed, body)
            for left_away in _subsets([one for one in optional if one != name]):
                yield Attempt({k: v for k, v in mixed.items() if k not in left_away}, body)


def _names(spec: RequestSpec) -> dict[str, bool]:
    if spec.header is None:
        return {}
    return {field.encode_name: field.required for field in msgspec.structs.fields(spec.header)}


def _fields(spec: RequestSpec, stored: Stored, foreign: str) -> dict[str, str]:
    assert spec.header is not None
    found: dict[str, str] = {}
    for field in msgspec.structs.fields(spec.header):
        name = field.encode_name
        places = {
            "offset": str(stored.position),
            "commitLogOffset": str(stored.position),
            "msgId": stored.offset_id,
        }
        is_truth = "bool" in str(field.type)
        value = places.get(name) or PLAIN.get(name) or ("true" if is_truth else "0")
        found[name] = value
    for touch in spec.touches:
        if isinstance(touch.source, Field):
            found[touch.source.name] = foreign
    if _names_keys(spec):
        found["namespace"] = foreign
    return found


def _names_keys(spec: RequestSpec) -> bool:
    return any(isinstance(touch.source, Keys) for touch in spec.touches)


def _subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    sizes = range(len(names) + 1) if len(names) <= SUBSETS_MAX else (0, 1, 2, len(names))
    for size in sizes:
        yield from combinations(names, size)


def _decoys(own: str, spec: RequestSpec) -> dict[str, str]:
    """Return fields that name objects in other requests, but not in this one."""
    names = {"topic", "group", "consumerGroup", "producerGroup", "groupName", "namespace", "a", "b"}
    return dict.fromkeys(names - _names(spec).keys(), own)


def _bodies(spec: RequestSpec, foreign: str, own: str) -> Iterator[bytes]:
    if any(isinstance(touch.source, InBody) for touch in spec.touches):
        for group, topic in ((foreign, foreign), (foreign, own), (own, foreign)):
            yield _naming(spec, group, topic)
        return
    if _names_keys(spec) and spec.body is BodyKind.LONG:
        is_write = spec.code == RequestCode.KV_WRITE
        steps = [Step(b"key", Action.PUT, b"value", if_version=0)]
        yield encode_steps(steps) if is_write else msgspec.msgpack.encode([b"key"])
        return
    yield (
        b"{}"
        if spec.body is BodyKind.JSON
        else b"maxMessageSize=4096" * (spec.body is BodyKind.TEXT)
    )


def _naming(spec: RequestSpec, group: str, topic: str) -> bytes:
    """Return the body that names a group, and a topic where it can: the names it has tell which."""
    queue = MessageQueue(topic, "broker-a", 0)
    consumer = ConsumerData(group, subscription_data_set=(SubscriptionData.of_tags(topic, "*"),))
    for body in (
        HeartbeatData("id", (ProducerData(group),), (consumer,)).encode(),
        LockBatch(group, "id", (queue,)).encode(),
        SubscriptionGroupConfig(group if group != "mine" else topic).encode(),
        SubscriptionGroupList(tuple(map(SubscriptionGroupConfig, (group, topic)))).encode(),
        TopicConfigList(tuple(map(TopicConfig, (group, topic)))).encode(),
    ):
        for touch in spec.touches:
            if isinstance(touch.source, InBody) and _reads(touch.source, body):
                return body
    raise AssertionError(f"no body for {spec.code.name}")


def _reads(source: InBody, body: bytes) -> bool:
    try:
        found = list(source.read(body))
    except Exception:  # the body of another request
        return False
    return any(name for _, name in found)
