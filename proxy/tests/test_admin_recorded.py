"""Every request that a real mqadmin sent to a real broker gets an answer of the same shape.

The broker of the recordings had a history; here it has a little of the same: the topics, keys
and groups that the requests name. Codes, ext fields and the members of bodies are compared,
values are not.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.testkit.proxy.peers import Recorded
from lanemq.wire import RequestCode, fastjson
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.frame import Frame, encode_frame

RECORDINGS = ["tools497", "tools497bin", "tools533", "tools533bin"]

# Members whose value is a table: its keys are data, not names.
TABLES = {"offsetTable", "subscriptionTable", "consumeStatsList[]"}
# What 5.x sends and we send to everyone; older tools pass over it.
ADDED_MEMBERS = {"pullOffset", "topicPutTps", "totalInflightDiff"}
# What 5.x sends about features that lanemq does not have.
MISSING_MEMBERS = {"attributes", "inflight"}
# lanemq does not take part in a conversation it could not go on with (broker.md, 5.1); members
# of pull answers that are 0 in any broker without static topics.
MISSING_FIELDS = {
    "IS_SUPPORT_HEART_BEAT_V2",
    "IS_SUB_CHANGE",
    "groupSysFlag",
    "topicSysFlag",
}


def names(value: object, path: str = "") -> set[str]:
    """The path of every member in a JSON value."""
    found: set[str] = set()
    if isinstance(value, dict):
        for key, member in value.items():
            name = "*" if path.rsplit(".", 1)[-1] in TABLES else str(key)
            found.add(f"{path}.{name}")
            found |= names(member, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            found |= names(item, f"{path}[]")
    return found


def without(paths: set[str], members: set[str]) -> set[str]:
    return {path for path in paths if path.rsplit(".", 1)[-1] not in members}


def broker_requests(entries: Iterator[Recorded]) -> Iterator[tuple[Frame, Frame]]:
    """Requests to the broker and their answers, in the order of the answers."""
    asked: dict[tuple[int, int], Frame] = {}
    for entry in entries:
        if entry.peer != "broker":
            continue
        frame, key = entry.frame, (entry.connection, entry.frame.opaque)
        if entry.from_client and not frame.is_response:
            asked[key] = frame
        elif frame.is_response and key in asked:
            yield asked.pop(key), frame


async def prepare(broker: TestBroker, requests: list[Frame]) -> int:
    """Make what the requests ask about; returns the log position of one message."""
    client, position = broker.connect(), 0
    for frame in requests:
        topic, fields = frame.fields.get("topic", ""), frame.fields
        if frame.code in (17, 215) or not topic:
            continue
        if broker.context.topics.get(topic) is None:
            broker.context.topics.put(TopicConfig(topic, 4, 4))
            for queue_id in range(4):
                await client.send(topic, queue_id=queue_id)
        if frame.code == RequestCode.QUERY_MESSAGE:
            name = "UNIQ_KEY" if fields["_UNIQUE_KEY_QUERY"] == "true" else "KEYS"
            position = broker.context.store.max_position
            await client.send(topic, properties={name: fields["key"]})
    offsets = broker.context.store.tables.consumer_offsets
    topics = [t for f in requests if f.code == 300 and (t := f.fields["topic"])]
    for frame in requests:
        group = frame.fields.get("consumerGroup") or frame.fields.get("group")
        if group and frame.code in (208, 222):
            broker.context.groups.find(group)
            for queue_id in range(4):
                offsets.put(group, topics[0], queue_id, 1)
    return position


def expected_code(recording: str, request: Frame, answer: Frame) -> int:
    if recording.startswith("tools533") and request.code == RequestCode.DELETE_TOPIC_IN_BROKER:
        return 0  # that broker fails: its timer store is off
    return answer.code


@pytest.mark.parametrize("recording", RECORDINGS)
async def test_recorded_tools_get_answers_of_the_same_shape(
    tmp_path: Path, recorded: Callable[[str], Iterator[Recorded]], recording: str
) -> None:
    exchanges = list(broker_requests(recorded(recording)))
    compared: dict[int, int] = {}
    async with open_test_broker(tmp_path) as broker:
        position = await prepare(broker, [request for request, _ in exchanges])
        # 4.9 leaves the reset of a group without members to the tool, 5.x does it itself.
        broker.context.config.use_server_side_reset_offset = recording.startswith("tools533")
        client = broker.connect()
        for request, answer in exchanges:
            if request.code == RequestCode.HEART_BEAT:
                client = broker.connect()  # it will be told of its own group
            if request.code == RequestCode.VIEW_MESSAGE_BY_ID:
                fields = dict(request.fields) | {"offset": str(position)}
                request = msgspec.structs.replace(request, fields=fields)
            await client.peer.stream.send_all(encode_frame(request))
            ours = await client.peer.receive()
            while not ours.is_response:
                ours = await client.peer.receive()
            where = f"{RequestCode(request.code).name} {dict(request.fields)}"
            assert ours.opaque == request.opaque, where
            assert ours.code == expected_code(recording, request, answer), f"{where}: {ours}"
            if ours.code != answer.code:
                continue
            fields_of_both = set(ours.fields), set(answer.fields) - MISSING_FIELDS
            assert fields_of_both[0] >= fields_of_both[1], where
            compare_bodies(ours, answer, request, where)
            compared[request.code] = compared.get(request.code, 0) + 1
    assert len(compared) > 15, compared


def compare_bodies(ours: Frame, theirs: Frame, request: Frame, where: str) -> None:
    assert bool(ours.body) == bool(theirs.body), where
    if not theirs.body.startswith((b"{", b"[")):
        return
    our_value: Any = fastjson.loads(ours.body)
    their_value: Any = fastjson.loads(theirs.body)
    if request.code == RequestCode.GET_BROKER_RUNTIME_INFO:
        return  # its keys have a test of their own
    our_names, their_names = names(our_value), names(their_value)
    if request.code == RequestCode.GET_CONSUME_STATS and ".offsetTable.*" not in their_names:
        return  # that group had consumed nothing
    assert without(our_names, ADDED_MEMBERS) == without(
        their_names, ADDED_MEMBERS | MISSING_MEMBERS
    ), where
