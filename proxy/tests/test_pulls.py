"""A pull is answered with what its queue holds, or waits for it, and always says where to go on."""

import gc
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.broker.handlers.pulls import _parked, _reads
from lanemq.proxy.net._session import Session
from lanemq.proxy.net._turns import LOOKS_OF_A_STEP
from lanemq.proxy.sessions.state import _hold
from lanemq.proxy.sessions.state._hold import Hold, Holds
from lanemq.storage import StoreType
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.proxy.brokers import (
    Client,
    TestBroker,
    open_test_broker,
    pull_header,
    send_header,
)
from lanemq.testkit.storage.units import delete_units
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from lanemq.wire.frame import Frame, SerializeType
from lanemq.wire.message import BatchEntry, decode_messages, encode_batch

FOUR = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
SUSPEND, SUBSCRIPTION, COMMIT = 2, 4, 1


def numbers(answer: Frame) -> tuple[int, ...]:
    """(next, min, max), after a check that all four numbers are there."""
    assert set(answer.fields) == set(FOUR)
    assert answer.fields["suggestWhichBrokerId"] == "0"
    return tuple(int(answer.fields[name]) for name in FOUR[1:])


class TestOutcomes:
    async def test_found_messages_come_with_the_offset_behind_them(self, client: Client) -> None:
        for number in range(3):
            await client.send(body=b"%d" % number)
        answer = await client.pull(offset=1)
        assert answer.code == 0
        assert numbers(answer) == (3, 0, 3)
        assert [message.body for message in decode_messages(answer.body)] == [b"1", b"2"]

    @pytest.mark.parametrize("serialize", list(SerializeType))
    async def test_the_answer_has_the_form_of_the_request(
        self, client: Client, serialize: SerializeType
    ) -> None:
        await client.send()
        for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            answer = await client.call(
                code, pull_header("T", 0, 0).to_fields(), serialize=serialize
            )
            assert (answer.code, answer.serialize) == (0, serialize)
            assert numbers(answer) == (1, 0, 1)

    @pytest.mark.parametrize(
        ("messages", "offset", "code", "expected"),
        [
            (0, 0, ResponseCode.PULL_NOT_FOUND, (0, 0, 0)),
            (0, 5, ResponseCode.PULL_OFFSET_MOVED, (0, 0, 0)),
            (2, 2, ResponseCode.PULL_NOT_FOUND, (2, 0, 2)),
            (2, 3, ResponseCode.PULL_OFFSET_MOVED, (2, 0, 2)),
            (2, -1, ResponseCode.PULL_OFFSET_MOVED, (0, 0, 2)),
        ],
    )
    async def test_outside_of_the_queue_the_offset_is_corrected(
        self,
        client: Client,
        messages: int,
        offset: int,
        code: ResponseCode,
        expected: tuple[int, ...],
    ) -> None:
        await client.send(queue_id=1)  # makes the topic; queue 0 is not written yet
        for _ in range(messages):
            await client.send()
        answer = await client.pull(offset=offset)
        assert answer.code == code
        assert numbers(answer) == expected
        assert answer.body == b""

    async def test_messages_with_other_tags_are_passed_over(self, client: Client) -> None:
        for tag in "ABACX":
            await client.send(properties={"TAGS": tag})
        await client.send(properties={})
        answer = await client.pull(subscription="B || C")
        assert [message.tags for message in decode_messages(answer.body)] == ["B", "C"]
        assert numbers(answer) == (6, 0, 6)

        answer = await client.pull(offset=4, subscription="A")
        assert (answer.code, answer.body) == (ResponseCode.PULL_RETRY_IMMEDIATELY, b"")
        assert numbers(answer) == (6, 0, 6)

    async def test_a_pull_takes_no_more_than_it_asks_for(self, client: Client) -> None:
        for _ in range(40):
            await client.send()
        assert len(await client.messages(max_msg_nums=7)) == 7
        assert len(await client.messages(max_msg_nums=100)) == 32
        assert len(await client.messages(max_msg_nums=0)) == 1

    async def test_a_body_stays_below_256_kib_unless_one_message_is_larger(
        self, tmp_path: Path
    ) -> None:
        async with open_test_broker(tmp_path, mapped_file_size_commit_log=4 << 20) as broker:
            client = broker.connect()
            for size_bytes in (100_000, 100_000, 100_000, 1 << 20):
                await client.send(body=bytes(size_bytes))
            assert len(await client.messages()) == 2
            assert len(await client.messages(offset=3)) == 1


class TestRefusals:
    async def refusal(self, client: Client, **changes: object) -> int:
        answer = await client.pull(**changes)  # type: ignore[arg-type]
        assert answer.remark
        return answer.code

    async def test_an_unknown_topic_does_not_exist(self, client: Client) -> None:
        assert await self.refusal(client, topic="none") == ResponseCode.TOPIC_NOT_EXIST

    async def test_a_queue_that_is_not_there_is_an_error(self, client: Client) -> None:
        await client.send()
        for queue_id in (-1, 4):
            assert await self.refusal(client, queue_id=queue_id) == ResponseCode.SYSTEM_ERROR

    async def test_what_may_not_be_read_is_forbidden(
        self, broker: TestBroker, client: Client
    ) -> None:
        broker.context.topics.put(TopicConfig("W", perm=2))
        assert await self.refusal(client, topic="W") == ResponseCode.NO_PERMISSION
        await client.send()
        broker.context.store.tables.groups.put(SubscriptionGroupConfig("g", consume_enable=False))
        assert await self.refusal(client) == ResponseCode.NO_PERMISSION

    async def test_a_group_that_is_neither_known_nor_made(self, tmp_path: Path) -> None:
        async with open_test_broker(tmp_path, auto_create_subscription_group=False) as broker:
            client = broker.connect()
            await client.send()
            code = await self.refusal(client)
            assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            assert (await client.pull(consumer_group="TOOLS_CONSUMER")).code == 0
            assert (await client.pull(consumer_group="CID_RMQ_SYS_x")).code == 0

    async def test_a_pull_that_is_faster_than_its_heartbeat(self, client: Client) -> None:
        await client.send()
        await client.send("U")
        not_there = ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert await self.refusal(client, sys_flag=0) == not_there
        await client.heartbeat(consumers={"g": {"T": "*"}})
        assert await self.refusal(client, topic="U", sys_flag=0) == not_there
        late = await self.refusal(client, sys_flag=0, sub_version=2)
        assert late == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert (await client.pull(sys_flag=0, sub_version=1)).code == 0

    async def test_broadcasting_only_where_the_group_may(
        self, broker: TestBroker, client: Client
    ) -> None:
        await client.send()
        await client.heartbeat(consumers={"g": {"T": "*"}}, message_model="BROADCASTING")
        assert (await client.pull(sys_flag=0)).code == 0
        broker.context.store.tables.groups.put(
            SubscriptionGroupConfig("g", consume_broadcast_enable=False)
        )
        assert await self.refusal(client, sys_flag=0) == ResponseCode.NO_PERMISSION

    async def test_filters_by_properties_are_refused_as_without_the_feature(
        self, broker: TestBroker, client: Client
    ) -> None:
        broker.context.config.enable_property_filter = False
        await client.send()
        answer = await client.pull(expression_type="SQL92", subscription="a > 1")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        remark = "The broker does not support consumer to filter message by SQL92"
        assert answer.remark == remark

    async def test_an_expression_without_a_tag_cannot_be_read(self, client: Client) -> None:
        await client.send()
        code = await self.refusal(client, subscription="||")
        assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    async def test_a_missing_field_is_named(self, client: Client) -> None:
        fields = pull_header("T", 0, 0).to_fields()
        del fields["maxMsgNums"]
        answer = await client.call(RequestCode.PULL_MESSAGE, fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "maxMsgNums" in str(answer.remark)


async def test_the_subscription_of_the_heartbeat_filters(client: Client) -> None:
    for tag in "ABA":
        await client.send(properties={"TAGS": tag})
    await client.heartbeat(consumers={"g": {"T": "B"}})
    assert [message.tags for message in await client.messages(sys_flag=0)] == ["B"]


async def test_the_offset_that_comes_with_a_pull_is_kept(
    broker: TestBroker, client: Client
) -> None:
    await client.send()
    await client.pull(sys_flag=SUBSCRIPTION, commit_offset=9)
    offsets = broker.context.store.tables.consumer_offsets
    assert offsets.get("g", "T", 0) is None
    await client.pull(sys_flag=SUBSCRIPTION | COMMIT, commit_offset=9)
    assert offsets.get("g", "T", 0) == 9


class TestHolding:
    """Time is simulated: every moment below is exact to the tenth of a second of a slot."""

    async def park(
        self, broker: TestBroker, offset: int, expression: str = "*", **changes: object
    ) -> Client:
        client = broker.connect()
        values: dict[str, object] = {
            "sys_flag": SUSPEND | SUBSCRIPTION,
            "subscription": expression,
        }
        header = pull_header("T", 0, offset, **(values | changes))
        await client.peer.send(client.frame(RequestCode.PULL_MESSAGE, header.to_fields()))
        await wait_all_tasks_blocked()
        return client

    async def test_a_message_wakes_it_at_once(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send(body=b"0")
        waiting = await self.park(broker, 1)
        start_s = trio.current_time()
        await client.send(body=b"1")
        answer = await waiting.peer.receive()
        assert trio.current_time() == start_s
        assert [message.body for message in decode_messages(answer.body)] == [b"1"]
        assert numbers(answer) == (2, 0, 2)
        assert len(broker.context.holds) == 0

    async def test_the_messages_of_one_read_wake_it_together(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        waiting = await self.park(broker, 1)
        frames = [await self.frame_of_a_send(client) for _ in range(5)]
        await client.peer.send(*frames)
        answer = await waiting.peer.receive()
        assert numbers(answer) == (6, 0, 6)

    @pytest.mark.parametrize("wanted", [0, 1, 2])
    async def test_any_message_of_a_batch_wakes_it_by_its_tag(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock, wanted: int
    ) -> None:
        await client.send()
        waiting = await self.park(broker, 1, "wanted")
        start_s = trio.current_time()
        tags = [b"wanted" if number == wanted else b"other" for number in range(3)]
        entries = [BatchEntry(0, b"x", b"TAGS\x01%b\x02" % tag) for tag in tags]
        header = send_header("T", batch=True)
        await client.call(
            RequestCode.SEND_BATCH_MESSAGE, header.to_letters(), encode_batch(entries)
        )
        answer = await waiting.peer.receive()
        assert trio.current_time() == start_s
        (message,) = decode_messages(answer.body)
        assert (message.tags, message.queue_offset) == ("wanted", 1 + wanted)

    async def frame_of_a_send(self, client: Client) -> Frame:
        return client.frame(RequestCode.SEND_MESSAGE_V2, send_header("T").to_letters(), b"x")

    async def test_without_a_message_it_says_so_when_its_time_is_up(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        start_s = trio.current_time()
        waiting = await self.park(broker, 1, suspend_timeout_millis=15_000)
        answer = await waiting.peer.receive()
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert numbers(answer) == (1, 0, 1)
        assert 15.0 <= trio.current_time() - start_s <= 15.2

    async def test_at_a_gap_it_is_told_at_once_where_to_go_on(
        self, tmp_path: Path, autojump_clock: MockClock
    ) -> None:
        """The messages of the gap are gone, from a log that was damaged, and do not come."""
        root = tmp_path / "gap"
        async with open_test_broker(root, store_type=StoreType.ROCKSDB) as broker:
            for _ in range(6):
                await broker.connect().send()
        delete_units(root, "T", 0, 2, 4)
        async with open_test_broker(root, store_type=StoreType.ROCKSDB) as broker:
            start_s = trio.current_time()
            waiting = await self.park(broker, 2, suspend_timeout_millis=15_000)
            answer = await waiting.peer.receive()
            assert trio.current_time() == start_s
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            assert numbers(answer) == (4, 0, 6)

    async def test_a_queue_never_written_can_be_waited_for(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send(queue_id=3)
        waiting = await self.park(broker, 0)
        await client.send(body=b"first")
        answer = await waiting.peer.receive()
        assert [message.body for message in decode_messages(answer.body)] == [b"first"]

    async def test_only_a_wanted_message_wakes_it_but_others_move_it_on(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        start_s = trio.current_time()
        waiting = await self.park(broker, 1, "A")
        other = await self.park(broker, 1, "B")
        await client.send(properties={"TAGS": "B"})
        assert (await other.peer.receive()).code == 0
        assert trio.current_time() == start_s
        answer = await waiting.peer.receive()
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert numbers(answer) == (2, 0, 2)
        assert 5.0 <= trio.current_time() - start_s <= 5.2

    async def test_an_earlier_end_is_not_overslept(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        long, short = (
            await self.park(broker, 1, suspend_timeout_millis=20_000),
            await self.park(broker, 1, suspend_timeout_millis=1000),
        )
        start_s = trio.current_time()
        await short.peer.receive()
        assert trio.current_time() - start_s <= 1.2
        await long.peer.receive()
        assert trio.current_time() - start_s <= 20.2

    async def test_its_commit_counts_once_and_not_at_the_end(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        flags = SUSPEND | SUBSCRIPTION | COMMIT
        waiting = await self.park(broker, 1, sys_flag=flags, commit_offset=1)
        offsets = broker.context.store.tables.consumer_offsets
        assert offsets.get("g", "T", 0) == 1
        offsets.put("g", "T", 0, 0)  # an operator moves the group back meanwhile
        await waiting.peer.receive()
        assert offsets.get("g", "T", 0) == 0

    async def test_it_goes_with_its_connection(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        waiting = await self.park(broker, 1)
        assert len(broker.context.holds) == 1
        await waiting.peer.stream.aclose()
        await wait_all_tasks_blocked()
        assert len(broker.context.holds) == 0
        await client.send()

    async def test_a_topic_that_goes_away_ends_the_wait_with_a_refusal(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        waiting = await self.park(broker, 1)
        broker.context.store.tables.topics.remove("T")
        answer = await waiting.peer.receive()
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    async def test_without_long_polling_it_waits_a_second(
        self, tmp_path: Path, autojump_clock: MockClock
    ) -> None:
        async with open_test_broker(tmp_path, long_polling_enable=False) as broker:
            await broker.connect().send()
            start_s = trio.current_time()
            waiting = await self.park(broker, 1)
            await waiting.peer.receive()
            assert 1.0 <= trio.current_time() - start_s <= 1.2

    async def test_too_many_are_told_that_the_broker_is_busy(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        broker.context.holds.held_max = 1
        await self.park(broker, 1)
        second = await self.park(broker, 1)
        assert (await second.peer.receive()).code == ResponseCode.SYSTEM_BUSY

    async def test_connections_of_one_address_cannot_take_the_places_of_all(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        broker.context.holds.held_max = 16
        header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=300_000)
        greedy = [broker.connect("10.9.9.9") for _ in range(16)]
        for one in greedy:
            await one.peer.send(one.frame(RequestCode.PULL_MESSAGE, header.to_fields()))
            await wait_all_tasks_blocked()
        for one in greedy[13:]:
            refused = await one.peer.receive()
            assert refused.code == ResponseCode.SYSTEM_BUSY
            assert "13 pulls of the connections from 10.9.9.9" in (refused.remark or "")
        other = broker.connect("10.1.1.1")
        await other.peer.send(other.frame(RequestCode.PULL_MESSAGE, header.to_fields()))
        await wait_all_tasks_blocked()
        assert len(broker.context.holds) == 14
        for one in greedy[:2]:
            await one.peer.stream.aclose()
        await wait_all_tasks_blocked()
        again = greedy[-1]
        await again.peer.send(again.frame(RequestCode.PULL_MESSAGE, header.to_fields()))
        await wait_all_tasks_blocked()
        assert len(broker.context.holds) == 13

    async def test_one_connection_cannot_take_the_places_of_all(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        broker.context.holds.held_max = 100
        header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=300_000)
        greedy = broker.connect()
        frames = [greedy.frame(RequestCode.PULL_MESSAGE, header.to_fields()) for _ in range(100)]
        await greedy.peer.send(*frames)
        refused = await greedy.peer.receive()
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark is not None
        assert "21 pulls of this connection are waiting, its share of the 100" in refused.remark
        modest = await self.park(broker, 1)
        await client.send()
        assert (await modest.peer.receive()).code == ResponseCode.SUCCESS

    async def test_fields_of_a_parked_pull_are_charged_as_what_they_take(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        budget = broker.context.budget
        header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=300_000)
        used_bytes = [budget.used_bytes]
        for fields in ({}, {f"x{n}": f"{n}" for n in range(200)}, {"x": "x" * 100_000}):
            peer = broker.connect()
            frame = peer.frame(RequestCode.PULL_MESSAGE, {**header.to_fields(), **fields})
            await peer.peer.send(frame)
            await wait_all_tasks_blocked()
            used_bytes.append(budget.used_bytes)
        plain, many, long = (after - before for before, after in pairwise(used_bytes))
        assert len(broker.context.holds) == 3
        assert plain + 200 * 100 < many
        assert plain + 100_000 <= long

    async def test_what_waits_is_charged_to_its_connection(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        budget = broker.context.budget
        budget.limit_bytes = 100_000
        header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=300_000)
        greedy = broker.connect()
        frames = [greedy.frame(RequestCode.PULL_MESSAGE, header.to_fields()) for _ in range(60)]
        await greedy.peer.send(*frames)
        assert (await greedy.peer.receive()).code == ResponseCode.SYSTEM_BUSY
        waiting = len(broker.context.holds)
        assert waiting * 2048 < budget.used_bytes <= budget.limit_bytes
        modest = await self.park(broker, 1)
        await client.send()
        assert (await modest.peer.receive()).code == ResponseCode.SUCCESS
        while waiting:
            waiting -= (await greedy.peer.receive()).code == ResponseCode.SUCCESS
        assert budget.used_bytes == 0

    async def test_a_broker_that_stops_sends_all_who_wait_away(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        start_s = trio.current_time()
        waiting = await self.park(broker, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.broker.stop)
            answer = await waiting.peer.receive()
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert trio.current_time() - start_s < 0.1
        assert len(broker.context.holds) == 0

    async def test_only_an_end_of_the_queue_is_waited_at(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send()
        start_s = trio.current_time()
        assert (await (await self.park(broker, 7)).peer.receive()).code == 21
        assert (await (await self.park(broker, 0)).peer.receive()).code == 0
        assert trio.current_time() == start_s


@pytest.mark.parametrize("where", ["Memory", "Disk"])
async def test_the_settings_of_transfers_rule_above_the_defaults_too(
    tmp_path: Path, where: str
) -> None:
    ratio = 0 if where == "Disk" else 40
    async with open_test_broker(tmp_path, access_message_in_memory_max_ratio=ratio) as broker:
        client = broker.connect()
        entry = encode_batch([BatchEntry(0, b"x" * 1000, b"")])
        assert (await client.send(body=entry * 700, batch=True)).code == 0

        async def pulled(count: int, bytes_: int) -> int:
            broker.context.config.update(
                {
                    f"maxTransferCountOnMessageIn{where}": str(count),
                    f"maxTransferBytesOnMessageIn{where}": str(bytes_),
                }
            )
            answer = await client.pull(max_msg_nums=1024)
            return len(decode_messages(answer.body))

        assert await pulled(1024, 1 << 30) == 700
        assert await pulled(600, 1 << 30) == 600
        assert 400 < await pulled(1024, 512 << 10) < 500
        assert await pulled(4, 1 << 20) == 4
        assert await pulled(1, 1) == 1


async def test_many_messages_for_many_pulls_take_no_longer_than_a_turn_may(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.send()
    header = pull_header(
        "T", 0, 1, sys_flag=6, suspend_timeout_millis=300_000, subscription="other"
    )
    waiting = broker.connect()
    frames = [waiting.frame(RequestCode.PULL_MESSAGE, header.to_fields()) for _ in range(10)]
    await waiting.peer.send(*frames)
    await wait_all_tasks_blocked()
    assert len(broker.context.holds) == 10
    looks: list[int] = []
    arrived = Holds.arrived

    def counted(*given: object, **named: object) -> bool:
        looks.append(1)
        return arrived(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Holds, "arrived", counted)
    monkeypatch.setattr(_reads, "JUDGING_S", 0.0)  # the time is over at once
    batch = encode_batch([BatchEntry(0, b"x", b"")] * 50)
    sent = await client.call(
        RequestCode.SEND_BATCH_MESSAGE, send_header("T", None, batch=True).to_letters(), batch
    )
    assert sent.code == 0
    for _ in frames:
        answer = await waiting.peer.receive()
        assert answer.code in {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY}
    assert len(looks) == 0
    assert len(broker.context.holds) == 0


@pytest.mark.parametrize("what", ["a message", "a change", "time"])
async def test_pulls_beyond_what_a_turn_looks_at_are_answered_all_the_same(
    broker: TestBroker,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    what: str,
) -> None:
    for module in (_hold, _parked):
        monkeypatch.setattr(module, "LOOKS_OF_A_STEP", 3)
    await client.send()
    suspend_ms = 1000 if what == "time" else 300_000
    header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=suspend_ms)
    waiting = broker.connect()
    frames = [waiting.frame(RequestCode.PULL_MESSAGE, header.to_fields()) for _ in range(20)]
    await waiting.peer.send(*frames)
    await wait_all_tasks_blocked()
    assert len(broker.context.holds) == len(frames)
    start_s = trio.current_time()
    if what == "a message":
        await client.send(properties={"TAGS": "A"})
    elif what == "a change":
        broker.context._mapping_changed("T", {0})
    found = {(await waiting.peer.receive()).code for _ in frames}
    assert found == {ResponseCode.SUCCESS if what == "a message" else ResponseCode.PULL_NOT_FOUND}
    assert trio.current_time() - start_s <= (1.2 if what == "time" else 0)
    assert len(broker.context.holds) == 0


WAITS_A_MINUTE = pull_header(
    "T", 0, 1, sys_flag=SUSPEND | SUBSCRIPTION, suspend_timeout_millis=60_000
)


async def test_very_many_pulls_are_refused_in_turns_when_the_broker_stops(tmp_path: Path) -> None:
    number = 5000
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        await client.send()
        for _ in range(number // 1000):
            frames = (
                client.frame(RequestCode.PULL_MESSAGE, WAITS_A_MINUTE.to_fields())
                for _ in range(1000)
            )
            await client.peer.send(*frames)
            await wait_all_tasks_blocked()
        assert len(broker.context.holds) == number
        with calls_of_steps() as steps:
            await broker.broker.pulls.parked.stop()
        assert steps.most <= 60 * _parked.REFUSED_MAX
        assert len(broker.context.holds) == 0
        found = {(await client.peer.receive()).code for _ in range(number)}
        assert found == {ResponseCode.SERVICE_NOT_AVAILABLE}
        late = await client.call(RequestCode.PULL_MESSAGE, WAITS_A_MINUTE.to_fields())
        assert late.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.context.budget.used_bytes == 0


async def test_the_collector_knows_nothing_of_parked_pulls(tmp_path: Path) -> None:
    number = 2000
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        await client.send()
        gc.collect()
        before = len(gc.get_objects())
        frames = (
            client.frame(RequestCode.PULL_MESSAGE, WAITS_A_MINUTE.to_fields())
            for _ in range(number)
        )
        await client.peer.send(*frames)
        await wait_all_tasks_blocked()
        gc.collect()
        assert len(gc.get_objects()) - before < number // 10
        await client.peer.stream.aclose()
        await wait_all_tasks_blocked()
        assert broker.context.budget.used_bytes == 0


@pytest.mark.parametrize("wakes", [False, True])
async def test_very_many_pulls_of_a_connection_go_with_it_in_turns(
    tmp_path: Path, *, wakes: bool
) -> None:
    """20,000, its share of the places, held the loop for 27 ms."""
    async with open_test_broker(tmp_path) as broker:
        client, other = broker.connect(), broker.connect()
        await client.send()
        header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=60_000).to_fields()
        for _ in range(8):
            frames = (client.frame(RequestCode.PULL_MESSAGE, header) for _ in range(1000))
            await client.peer.send(*frames)
            await wait_all_tasks_blocked()
        holds, dropped = broker.context.holds, list[int]()
        drop = holds.drop

        def noted(owner: Session, *, most: int | None = None) -> list[Hold[Session]]:
            found = drop(owner, most=most)
            dropped.append(len(found))
            if wakes and len(dropped) == 2:
                holds.wake("T", 0)
            return found

        broker.context.holds.drop = noted  # type: ignore[method-assign]
        with calls_of_steps() as steps:
            await client.peer.stream.aclose()
            await wait_all_tasks_blocked()
        assert len(holds) == broker.context.budget.used_bytes == 0
        assert dropped[0] == max(dropped) == LOOKS_OF_A_STEP
        assert steps.most <= 20 * LOOKS_OF_A_STEP
        assert (await other.send()).code == 0
