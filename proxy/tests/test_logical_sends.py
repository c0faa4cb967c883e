"""Sends to queues that were sealed: redirected, or passed on and answered as if nothing were."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.logical.rules._forwarding import born_host_of, forwarded
from lanemq.proxy.logical.rules._mapping import TopicMapping
from lanemq.storage import NewMessage, Put, StoreUnwritable
from lanemq.testkit.logical.cluster import (
    CLIENT_HOST,
    TOPIC,
    LogicalCluster,
    messages_of,
    redirect_of,
    until,
    without_number,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import Client, send_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.wire import HostAddress, RequestCode, ResponseCode, SysFlag, SystemTopic
from lanemq.wire.frame import FLAG_ONEWAY, Frame, SerializeType
from lanemq.wire.headers import EndTransaction
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    SEGMENT_FIELD,
    MigrateLogicalQueue,
    Segment,
    SegmentState,
)
from lanemq.wire.message import BatchEntry, decode_offset_id, encode_batch

FORWARD = "PROPERTY_FORWARD_QUEUE_ID"
HALF = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "key-1"}


async def bodies(cluster: LogicalCluster, segment: Segment) -> list[bytes]:
    """All that is stored in the queue of a segment, read as an old client does."""
    client = await cluster.at(segment.broker_name, version=407)
    return [m.body for m in await client.messages(segment.topic, segment.queue_id)]


def sends(body: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """A message for queue 0 in each of the forms that old clients use."""
    header = send_header(TOPIC)
    batch = encode_batch([BatchEntry(0, body + b"1", b""), BatchEntry(0, body + b"2", b"")])
    return [
        (RequestCode.SEND_MESSAGE, header.to_fields(), body),
        (RequestCode.SEND_MESSAGE_V2, header.to_letters(), body),
        (RequestCode.SEND_BATCH_MESSAGE, replace_batch(header.to_letters()), batch),
    ]


def replace_batch(letters: dict[str, str]) -> dict[str, str]:
    return letters | {"m": "true"}


async def test_old_clients_are_passed_on_once_and_answered_once(cluster: LogicalCluster) -> None:
    source, target = await cluster.migrate(0, "broker2")
    old = await cluster.connect("broker1", version=253)
    expected: list[bytes] = []
    for code, fields, body in sends(b"m"):
        answer = await old.call(code, fields, body)
        assert answer.code == 0, answer.remark
        assert (answer.fields["queueId"], answer.fields[FORWARD]) == ("0", "1")
        # On the scale of the queue that the client knows, the message follows the last one there.
        assert int(answer.fields["queueOffset"]) == 10 + len(expected)
        assert "REDIRECT" not in answer.fields
        expected += [b"m1", b"m2"] if code == RequestCode.SEND_BATCH_MESSAGE else [b"m"]
    assert await bodies(cluster, target) == expected
    assert await bodies(cluster, source) == [str(n).encode() for n in range(10)]
    # No second answer, under whatever number.
    with trio.move_on_after(30):
        extra = await old.peer.receive()
        raise AssertionError(extra)


async def test_oneway_sends_are_passed_on(cluster: LogicalCluster) -> None:
    _, target = await cluster.migrate(0, "broker2")
    old = await cluster.connect("broker1", version=407)
    for code, fields, body in sends(b"w"):
        await old.peer.send(old.frame(code, fields, body, oneway=True))
    await trio.sleep(5)
    assert sorted(await bodies(cluster, target)) == [b"w", b"w", b"w1", b"w2"]
    counters = cluster.brokers["broker1"].running.context.logical.counters
    assert counters.forwards == 3
    await cluster.brokers["broker2"].kill()
    await old.peer.send(old.frame(*sends(b"lost")[0], oneway=True))
    await trio.sleep(5)
    assert counters.forwards_failed == 1


async def test_many_forwards_at_once_keep_their_answers_apart(cluster: LogicalCluster) -> None:
    _, target = await cluster.migrate(0, "broker2")
    offsets: dict[bytes, int] = {}

    async def client_of(number: int) -> None:
        client = await cluster.connect("broker1", version=407)  # all begin with the same opaques
        for turn in range(5):
            body = f"{number}-{turn}".encode()
            answer = await client.call(*sends(body)[1])
            assert answer.code == 0
            offsets[body] = int(answer.fields["queueOffset"]) - 10

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(client_of, number)
    stored = await bodies(cluster, target) + [
        m.body for m in await (await cluster.at("broker2", version=407)).messages(TOPIC, 1, 32)
    ]
    assert {body: stored.index(body) for body in offsets} == offsets


async def test_a_binary_header_is_passed_on_and_answered_in_kind(cluster: LogicalCluster) -> None:
    await cluster.migrate(0, "broker2")
    old = await cluster.connect("broker1", version=407)
    answer = await old.call(*sends(b"m")[1], serialize=SerializeType.ROCKETMQ)
    assert (answer.code, answer.serialize) == (0, SerializeType.ROCKETMQ)


async def test_a_broker_that_is_down_is_named_in_the_refusal(cluster: LogicalCluster) -> None:
    await cluster.migrate(0, "broker2")
    broker2 = cluster.brokers["broker2"]
    old = await cluster.connect("broker1", version=407)
    await broker2.kill()
    answer = await old.call(*sends(b"m")[1])
    assert answer.code == 1
    assert (answer.remark or "").startswith(f"send request failed to {broker2.address}: ")
    await broker2.restart("kill")
    cluster.network.part(broker2.host, cluster.brokers["broker1"].host)
    began_s = trio.current_time()
    answer = await old.call(*sends(b"m")[1])
    assert answer.code == 1
    assert answer.remark == f"wait response from {broker2.address} timeout: 3000ms"
    assert trio.current_time() - began_s < 4


async def test_a_message_is_not_passed_on_for_ever(cluster: LogicalCluster) -> None:
    await cluster.migrate(0, "broker2")
    old = await cluster.connect("broker1", version=407)
    code, fields, body = sends(b"m")[1]
    # Who passes messages on follows redirects himself.
    answer = await old.call(code, fields | {"lanemqHops": "1"}, body)
    assert redirect_of(answer).following.broker_name == "broker2"


def with_segments(mapping: TopicMapping, *, segments: list[Segment]) -> TopicMapping:
    return mapping.put(*segments)


async def test_views_that_point_at_each_other_end_in_a_refusal(cluster: LogicalCluster) -> None:
    source, target = await cluster.migrate(0, "broker2")
    for name in cluster.brokers:  # neither is open, each holds the other for open
        logical = cluster.brokers[name].running.context.logical
        wrong = [
            segment.sealed(10)
            if segment.broker_name == name
            else replace(segment, state=SegmentState.NORMAL, offset_max=-1)
            for segment in (source, target)
        ]
        await logical.change(TOPIC, partial(with_segments, segments=wrong))
    old = await cluster.connect("broker1", version=407)
    answer = await old.call(*sends(b"m")[1])
    assert answer.code in (1, 16)
    assert "REDIRECT" not in answer.fields


async def test_a_target_that_was_sealed_meanwhile_is_followed_once(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster("broker1", "broker2", "broker3") as cluster:
        await cluster.migrate(0, "broker2")
        await cluster.migrate(0, "broker3")  # broker1 has not heard of it
        old = await cluster.connect("broker1", version=407)
        answer = await old.call(*sends(b"m")[1])
        assert (answer.code, answer.fields["queueId"]) == (0, "0")
        # And from now on it has.
        assert (await cluster.chain("broker1", 0))[-1].broker_name == "broker3"


async def test_flagged_clients_get_the_redirect_and_only_they(cluster: LogicalCluster) -> None:
    source, target = await cluster.migrate(0, "broker2")
    flagged, plain = await cluster.send(source), await cluster.send(source, flagged=False)
    assert flagged.code == 16
    redirect = redirect_of(flagged)
    assert (redirect.current, redirect.following) == (
        without_number(source),
        without_number(target),
    )
    assert plain.code == 0
    assert "REDIRECT" not in plain.fields


async def test_java_clients_that_are_not_told_of_the_queues_are_passed_on(
    cluster: LogicalCluster,
) -> None:
    source, _ = await cluster.migrate(0, "broker2")
    stream = await cluster.network.dialer("10.0.9.9")(cluster.name_server.host, 9876)
    operator = Client(Peer(stream))
    text = b"serveLogicalQueueToJava=none"
    assert (await operator.call(RequestCode.UPDATE_NAMESRV_CONFIG, body=text)).code == 0
    await trio.sleep(35)  # the next registration is told
    cluster.forget()
    answer = await cluster.send(source, flagged=True)
    assert (answer.code, answer.fields["queueId"]) == (0, "0")
    # A client that is not Java's has been told, and wants the redirect.
    client = await cluster.connect("broker1", version=409)
    frame = client.frame(
        RequestCode.SEND_MESSAGE_V2,
        send_header(TOPIC, sys_flag=LOGICAL_QUEUE_FLAG).to_letters(),
        b"m",
    )
    await client.peer.send(python(frame))
    assert redirect_of(await client.peer.receive()).following.broker_name == "broker2"


def python(frame: Frame) -> Frame:
    """The same request from a client in Python."""
    return Frame(
        code=frame.code,
        opaque=frame.opaque,
        flag=frame.flag,
        fields=frame.fields,
        body=frame.body,
        language="PYTHON",
        version=frame.version,
    )


async def test_without_an_open_segment_nobody_is_sent_anywhere(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    answer = await cluster.seal("broker1", 0, 0)
    sealed = Segment.decode(answer.body)
    assert (sealed.state, sealed.offset_max) == (SegmentState.READ_ONLY, 10)
    for flagged in (True, False):
        answer = await cluster.send(source, flagged=flagged)
        assert answer.code == 16
        assert answer.remark == (
            "broker[10.0.1.1] topic[T] queueId[0] logicalQueueIdx[0] not writable"
        )
        assert "REDIRECT" not in answer.fields
    again = await cluster.seal("broker1", 0, 0)
    assert (again.code, again.remark) == (0, "message queue already sealed")
    assert Segment.decode(again.body) == sealed
    for queue_id, index, remark in (
        (0, 7, "logical queue not exist"),
        (5, 0, "message queue not exist"),
    ):
        answer = await cluster.seal("broker1", queue_id, index)
        assert (answer.code, answer.remark) == (1, remark)
    assert len(messages_of(await cluster.pull(source, 0))) == 10


async def test_the_flag_is_of_the_request_and_is_never_stored(cluster: LogicalCluster) -> None:
    segment = await cluster.normal(0)
    await cluster.send(segment, b"a", properties={"DELAY": "1"})
    client = await cluster.at("broker1")
    await client.send(TOPIC, b"b", queue_id=0, sys_flag=LOGICAL_QUEUE_FLAG | SysFlag.COMPRESSED)
    batch = encode_batch([BatchEntry(0, b"c", b"")])
    header = send_header(TOPIC, sys_flag=LOGICAL_QUEUE_FLAG)
    await client.call(RequestCode.SEND_BATCH_MESSAGE, replace_batch(header.to_letters()), batch)
    await client.send("other", b"d", sys_flag=LOGICAL_QUEUE_FLAG)
    await trio.sleep(3)
    stored = await client.messages(TOPIC, 0, 10) + await client.messages("other")
    assert {m.body: m.sys_flag for m in stored} == {b"b": 1, b"c": 0, b"a": 0, b"d": 0}


async def test_a_broker_that_may_choose_takes_a_queue_that_is_open(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(queues=3) as cluster:
        await cluster.migrate(0, "broker2")
        await cluster.seal("broker1", 2, 2)
        client = await cluster.at("broker1")
        for _ in range(20):
            answer = await client.send(TOPIC, queue_id=-1, sys_flag=LOGICAL_QUEUE_FLAG)
            assert (answer.code, answer.fields["queueId"]) == (0, "1")


@pytest.mark.parametrize("wait", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "10"}])
async def test_a_delayed_message_reaches_the_queue_where_it_goes_on(
    cluster: LogicalCluster, wait: dict[str, str]
) -> None:
    source = await cluster.normal(0)
    properties = {**wait, "UNIQ_KEY": "key-1", "KEYS": "k"}
    assert (await cluster.send(source, b"later", properties=properties)).code == 0
    source, target = await cluster.migrate(0, "broker2")
    await trio.sleep(15)
    (message,) = messages_of(await cluster.pull(target, 0))
    assert (message.body, message.unique_key) == (b"later", "key-1")
    assert target.to_logical(message.queue_offset) == 10
    assert len(await bodies(cluster, source)) == 10  # nothing behind the end


@pytest.mark.parametrize(
    "wait", [{"DELAY": "2"}, pytest.param({"TIMER_DELAY_SEC": "5"}, marks=pytest.mark.slow)]
)
async def test_a_delayed_message_waits_for_a_broker_that_is_down(
    cluster: LogicalCluster, wait: dict[str, str]
) -> None:
    source = await cluster.normal(0)
    properties = {**wait, "UNIQ_KEY": "key-1"}
    assert (await cluster.send(source, b"later", properties=properties)).code == 0
    other = await cluster.at("broker1")
    await other.send("other", b"in time", {"DELAY": "2"})
    source, target = await cluster.migrate(0, "broker2")
    await cluster.brokers["broker2"].kill()
    await trio.sleep(8)
    assert [m.body for m in await other.messages("other")] == [b"in time"]
    await trio.sleep(20)
    await cluster.brokers["broker1"].kill()
    await cluster.brokers["broker1"].restart("power")
    await cluster.brokers["broker2"].restart("power")
    cluster.forget()
    await trio.sleep(30)
    found = messages_of(await cluster.pull(target, 0))
    assert {(m.body, m.unique_key) for m in found} == {(b"later", "key-1")}
    assert len(await bodies(cluster, source)) == 10


async def test_a_delayed_send_to_a_sealed_queue_is_sent_on_at_once(cluster: LogicalCluster) -> None:
    source, target = await cluster.migrate(0, "broker2")
    for wait in ({"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}):
        answer = await cluster.send(source, properties=wait)
        assert redirect_of(answer).following == without_number(target)


async def test_senders_wait_while_a_queue_is_sealed_and_hear_where_it_goes_on(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    target = await cluster.destination(0, "broker2")
    files = cluster.brokers["broker1"].files
    gate = cluster.brokers["broker1"].running.context.logical.gate
    answers: list[Frame] = []

    async def send(flagged: bool) -> None:
        client = await cluster.connect("broker1")
        await until(lambda: gate.is_closed((TOPIC, 0)))
        flags = LOGICAL_QUEUE_FLAG if flagged else 0
        answers.append(await client.send(TOPIC, b"late", queue_id=0, sys_flag=flags))

    async with trio.open_nursery() as nursery:
        for flagged in (True, False):
            nursery.start_soon(send, flagged)
        with slow_disk(files, 0.5):
            answer = await cluster.prepare(source, target)
    assert answer.code == 0
    assert sorted(answer.code for answer in answers) == [0, 16]
    move = MigrateLogicalQueue.decode(answer.body)
    assert move.destination is not None
    for answer in answers:
        if answer.code == 16:
            assert redirect_of(answer).following == without_number(move.destination)


@contextmanager
def slow_disk(files: SimulatedFiles, seconds: float) -> Iterator[None]:
    """Let every sync take so long."""
    original = files.sync_content

    async def late(content: Any) -> None:  # noqa: ANN401 - the simulation's own
        await trio.sleep(seconds)
        await original(content)

    files.sync_content = late  # type: ignore[method-assign]
    try:
        yield
    finally:
        files.sync_content = original  # type: ignore[method-assign]


async def meant(
    cluster: LogicalCluster, segment: Segment, value: str, body: bytes, *, oneway: bool = False
) -> Frame:
    """The answer to a send of lanemq's own clients, which say what segment they mean."""
    client = await cluster.at(segment.broker_name)
    letters = send_header(
        TOPIC, queue_id=segment.queue_id, sys_flag=LOGICAL_QUEUE_FLAG
    ).to_letters() | {SEGMENT_FIELD: value}
    frame = client.frame(RequestCode.SEND_MESSAGE_V2, letters, body)
    if oneway:
        await client.peer.send(msgspec.structs.replace(frame, flag=FLAG_ONEWAY))
        return frame
    await client.peer.send(python(frame))
    return await client.peer.receive()


async def test_a_sender_whose_view_is_a_whole_reuse_behind_is_sent_on(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(logical_queue_reuse_readable=True) as cluster:
        first = await cluster.normal(0)
        await cluster.fill(first, 10)
        sealed, _ = await cluster.migrate(0, "broker2")
        _, last = await cluster.migrate(0, "broker1", reuse=first.queue_id)
        assert (last.queue_id, last.offset_delta) == (first.queue_id, 10)

        refused = await meant(cluster, first, "0:0", b"late")
        assert refused.code == 16
        redirect = redirect_of(refused)
        assert (redirect.current.key, redirect.following) == (sealed.key, without_number(last))
        taken = await meant(cluster, last, "0:10", b"now")
        assert (taken.code, taken.fields["queueOffset"]) == (0, "10")
        await meant(cluster, first, "0:0", b"one way", oneway=True)
        stored = [b"%d" % number for number in range(10)] + [b"now", b"one way"]
        while await bodies(cluster, last) != stored:  # noqa: ASYNC110 - a one-way send ends unseen
            await trio.sleep(0.01)


async def test_a_sender_that_takes_a_segment_for_one_at_another_place_is_told_to_ask(
    cluster: LogicalCluster,
) -> None:
    """As one does that heard of a migration which was called off, before the queue moved there."""
    await cluster.migrate(0, "broker2")
    segment = await cluster.normal(0)
    assert (segment.broker_name, segment.delta) == ("broker2", 10)
    answer = await meant(cluster, segment, f"0:{segment.offset_delta}:9", b"lost")
    assert (answer.code, answer.fields["REDIRECT"], answer.body) == (16, "1", b"")
    for value in (f"0:{segment.offset_delta}", segment.meant):
        assert (await meant(cluster, segment, value, b"taken")).code == 0
    assert await bodies(cluster, segment) == [b"taken"] * 2


async def test_the_place_that_a_sender_names_is_not_taken_for_the_one_of_the_next_migration(
    cluster: LogicalCluster,
) -> None:
    """The destination does not know its place when it is written to, and its queue is the one of a
    migration that was called off: the offset that is answered is right, or none is."""
    first = await cluster.destination(0, "broker2")
    assert (await cluster.prepare(await cluster.normal(0), first)).code == 0  # at 10
    assert (await cluster.map("broker2", first.queue_id, -1)).code == 0
    while (await cluster.chain("broker1", 0)).normal is None:  # noqa: ASYNC110 - it asks
        await trio.sleep(1)
    await cluster.fill(await cluster.normal(0), 1, first=10)
    target = await cluster.destination(0, "broker2", reuse=first.queue_id)
    assert target.key == first.key
    answer = await cluster.prepare(await cluster.normal(0), target)  # at 11
    move = MigrateLogicalQueue.decode(answer.body)
    assert move.destination is not None
    unknown = await meant(cluster, target, "0:0:10", b"0")
    assert (unknown.code, unknown.fields["queueOffset"]) == (0, "-1")

    answers: dict[str, int] = {}
    store = cluster.brokers["broker2"].running.context.store

    async def send(place: str) -> None:
        client = await cluster.connect("broker2")
        letters = send_header(TOPIC, queue_id=target.queue_id, sys_flag=LOGICAL_QUEUE_FLAG)
        fields = letters.to_letters() | {SEGMENT_FIELD: f"0:0{place}"}
        answer = await client.call(RequestCode.SEND_MESSAGE_V2, fields, b"x")
        answers[place] = int(answer.fields["queueOffset"])

    async def stored(end: int) -> None:
        await until(lambda: store.bounds(TOPIC, target.queue_id)[1] == end)

    async with trio.open_nursery() as nursery:
        for number, place in enumerate((":10", ":11", ""), start=2):
            nursery.start_soon(send, place)
            await stored(number)
        await until(lambda: "" in answers)
        assert answers == {"": 3}
        assert (await cluster.commit(move.source, move.destination)).code == 0
    # The logical offsets 12, 13 and 14, as each sender counts.
    assert answers == {":10": 2, ":11": 2, "": 3}


@pytest.mark.parametrize("value", ["7:0", "1:3", "", "x", "0:0:1", "0:0:x", "0:0:0:0"])
async def test_a_sender_that_means_an_unknown_segment_is_told_to_ask(
    cluster: LogicalCluster, value: str
) -> None:
    segment = await cluster.normal(0)
    answer = await meant(cluster, segment, value, b"lost")
    assert (answer.code, answer.fields["REDIRECT"], answer.body) == (16, "1", b"")
    assert len(await bodies(cluster, segment)) == 10


async def test_a_message_that_is_passed_on_says_what_it_is_for(cluster: LogicalCluster) -> None:
    _, target = await cluster.migrate(0, "broker2")
    frame = Frame(code=RequestCode.SEND_MESSAGE_V2, fields=send_header(TOPIC).to_letters())
    sent = forwarded(frame, target, HostAddress("10.0.9.9", 1))
    assert sent.fields[SEGMENT_FIELD] == f"0:{target.offset_delta}:{target.delta}"
    client = await cluster.at("broker1", version=407)
    for code, fields, body in sends(b"body"):
        assert (await client.call(code, fields, body)).code == 0
    stored = await (await cluster.at("broker2")).messages(TOPIC, target.queue_id)
    assert len(stored) == 4
    # Not the broker that passed it on: its sender.
    assert {message.born_host.host for message in stored} == {CLIENT_HOST}


@pytest.mark.parametrize("value", ["", "zz", "00", "ff" * 21])
def test_an_address_that_is_none_is_passed_over(value: str) -> None:
    peer = HostAddress("10.1.1.1", 7)
    assert born_host_of(Frame(code=10, fields={"lanemqBornHost": value}), peer) == peer.packed
    assert born_host_of(Frame(code=10, fields={}), peer) == peer.packed


async def end_of(cluster: LogicalCluster, segment: Segment, half: Frame, state: int) -> Frame:
    header = EndTransaction(
        producer_group="pg",
        tran_state_table_offset=int(half.fields["queueOffset"]),
        commit_log_offset=decode_offset_id(half.fields["msgId"])[1],
        commit_or_rollback=state,
        msg_id="key-1",
    )
    client = await cluster.at(segment.broker_name)
    return await client.call(RequestCode.END_TRANSACTION, header.to_fields())


async def test_a_half_message_is_committed_where_its_queue_goes_on(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    halves = [
        await cluster.send(source, body, properties=HALF | {"UNIQ_KEY": body.decode()})
        for body in (b"here", b"there", b"nowhere")
    ]
    assert [half.fields["queueOffset"] for half in halves] == ["0", "1", "2"]
    here, there, nowhere = halves
    assert (await end_of(cluster, source, here, SysFlag.TRANSACTION_COMMIT)).code == 0
    assert (await bodies(cluster, source))[10:] == [b"here"]
    source, target = await cluster.migrate(0, "broker2")
    for code in (0, 1):  # an end may come twice, and changes nothing then
        assert (await end_of(cluster, source, there, SysFlag.TRANSACTION_COMMIT)).code == code
    assert (await end_of(cluster, source, nowhere, SysFlag.TRANSACTION_ROLLBACK)).code == 0
    (message,) = messages_of(await cluster.pull(target, 0))
    assert (message.body, message.unique_key) == (b"there", "there")
    assert target.to_logical(message.queue_offset) == 11
    assert len(await bodies(cluster, source)) == 11  # nothing behind the end


async def test_a_committed_message_waits_for_a_broker_that_is_down(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    half = await cluster.send(source, b"later", properties=HALF)
    source, target = await cluster.migrate(0, "broker2")
    await cluster.brokers["broker2"].kill()
    assert (await end_of(cluster, source, half, SysFlag.TRANSACTION_COMMIT)).code == 0
    await cluster.brokers["broker2"].restart("power")
    cluster.forget()
    await trio.sleep(40)
    found = messages_of(await cluster.pull(target, 0))
    assert {(m.body, m.unique_key) for m in found} == {(b"later", "key-1")}


async def test_a_half_message_for_a_sealed_queue_is_redirected_and_never_passed_on(
    cluster: LogicalCluster,
) -> None:
    """Its end goes to the broker that took it, as far as the sender knows."""
    source, target = await cluster.migrate(0, "broker2")
    answer = await cluster.send(source, b"half", properties=HALF)
    assert redirect_of(answer).following == without_number(target)
    answer = await cluster.send(source, b"half", properties=HALF, flagged=False)
    assert (answer.code, FORWARD in answer.fields) == (16, False)
    for name in cluster.brokers:
        assert await (await cluster.at(name)).messages(SystemTopic.TRANSACTION_HALF) == []


async def test_what_waits_for_the_disk_is_given_up_where_it_cannot_be_written(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mapped_cluster("broker1") as cluster:
        _, target = await cluster.migrate(0, "broker1")
        old = await cluster.connect("broker1", version=407)
        context = cluster.brokers["broker1"].running.context
        put, write, appended = context.store.put, context.store.write, list[str]()

        def fail() -> None:
            if appended:
                raise StoreUnwritable("disk full")
            write()

        def put_one(message: NewMessage) -> Put:
            appended.append(message.topic)
            return put(message)

        with monkeypatch.context() as patch:
            patch.setattr(context.store, "write", fail)
            patch.setattr(context.writer, "_put", put_one)
            answer = await old.call(*sends(b"lost")[1])
        assert (answer.code, appended) == (ResponseCode.SERVICE_NOT_AVAILABLE, [target.topic])
        gc.collect()  # a coroutine that nobody awaited would be complained about now


async def test_a_send_that_waits_for_its_place_and_for_the_disk_is_given_up_as_a_whole(
    cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StoreUnwritable("disk full")

    target = await cluster.destination(0, "broker2")
    with monkeypatch.context() as patch:
        patch.setattr(cluster.brokers["broker2"].running.context.store, "write", fail)
        answer = await meant(cluster, target, "0:0:10", b"lost")
    assert (answer.code, answer.fields) == (ResponseCode.SERVICE_NOT_AVAILABLE, {})
    gc.collect()  # a coroutine that nobody awaited would be complained about now
