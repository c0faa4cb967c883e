"""Messages that come again: after a delay, after a consumer gave them back, or never more."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.storage import FlushMode, NewMessage, Store, StoreUnwritable
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, send_header
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import KVTable, SubscriptionGroupConfig, TopicConfig
from lanemq.wire.frame import Frame
from lanemq.wire.message import StoredMessage, decode_offset_id, encode_properties

T0 = 1_700_000_000_000
LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def now_ms() -> int:
    """A time of day that runs with the simulated clock."""
    return T0 + round(trio.current_time() * 1000)


@pytest.fixture
def clock(autojump_clock: MockClock) -> Callable[[], int]:
    return now_ms


async def waited_for(client: Client, topic: str, queue_id: int = 0) -> StoredMessage:
    """The first message of a queue, when it comes; the test's patience ends after five hours."""
    suspend, subscription = 2, 4
    with trio.fail_after(18_000):
        while True:
            found = await client.messages(
                topic, queue_id, sys_flag=suspend | subscription, suspend_timeout_millis=60_000
            )
            if found:
                return found[0]


# Simulated, but with all that a broker does meanwhile.
TWO_HOURS = pytest.param(18, marks=pytest.mark.slow)


class TestDelay:
    @pytest.mark.parametrize("level", [1, 2, 3, 5, TWO_HOURS])
    async def test_a_message_comes_when_its_level_says(
        self, client: Client, level: int, autojump_clock: MockClock
    ) -> None:
        properties = {"DELAY": str(level), "TAGS": "A", "KEYS": "k"}
        sent = await client.send("T", b"late", properties, queue_id=2, flag=3, sys_flag=1)
        stored_ms = now_ms()
        message = await waited_for(client, "T", 2)
        due_ms = LEVELS_S[level - 1] * 1000
        assert due_ms <= message.store_timestamp_ms - stored_ms <= due_ms + 10
        assert (message.body, message.flag, message.sys_flag) == (b"late", 3, 1)
        assert message.born_timestamp_ms == 1_700_000_000_000
        seen = message.properties
        assert seen.items() >= (properties | {"REAL_TOPIC": "T", "REAL_QID": "2"}).items()
        assert message.offset_id != sent.fields["msgId"]
        assert (await client.messages("T", 2, subscription="A")) == [message]

    async def test_messages_of_one_level_come_in_order(
        self, client: Client, autojump_clock: MockClock
    ) -> None:
        for number in range(200):
            await client.send(body=b"%d" % number, properties={"DELAY": "1"})
        await waited_for(client, "T")
        await trio.sleep(1)
        bodies: list[bytes] = []
        while found := await client.messages(offset=len(bodies)):
            bodies += [message.body for message in found]
        assert bodies == [b"%d" % number for number in range(200)]

    async def test_levels_do_not_wait_for_each_other(
        self, client: Client, autojump_clock: MockClock
    ) -> None:
        await client.send(queue_id=0, properties={"DELAY": "18"})
        await client.send(queue_id=1, properties={"DELAY": "2"})
        await client.send(queue_id=2, properties={"DELAY": "1"})
        first = await waited_for(client, "T", 2)
        second = await waited_for(client, "T", 1)
        assert second.store_timestamp_ms - first.store_timestamp_ms in range(3990, 4011)
        assert await client.messages("T", 0) == []

    async def test_waiting_messages_survive_a_restart_and_are_delivered_once(
        self, tmp_path: Path, autojump_clock: MockClock
    ) -> None:
        async with open_test_broker(tmp_path, now_ms=now_ms) as broker:
            client = broker.connect()
            await client.send(queue_id=0, properties={"DELAY": "1"})
            await waited_for(client, "T", 0)
            await client.send(queue_id=1, properties={"DELAY": "3"})
        await trio.sleep(60)
        async with open_test_broker(tmp_path, now_ms=now_ms) as broker:
            client = broker.connect()
            await waited_for(client, "T", 1)
            await trio.sleep(60)
            assert len(await client.messages("T", 0)) == 1
            assert len(await client.messages("T", 1)) == 1

    async def test_other_levels_can_be_configured(
        self, tmp_path: Path, autojump_clock: MockClock
    ) -> None:
        async with open_test_broker(
            tmp_path, now_ms=now_ms, message_delay_level="100s 200s"
        ) as broker:
            client = broker.connect()
            await client.send(properties={"DELAY": "7"})
            message = await waited_for(client, "T")
            assert message.store_timestamp_ms - T0 in range(200_000, 200_020)
            assert message.properties["DELAY"] == "2"

    async def test_a_store_that_takes_nothing_makes_them_wait_not_vanish(
        self,
        broker: TestBroker,
        client: Client,
        monkeypatch: pytest.MonkeyPatch,
        autojump_clock: MockClock,
    ) -> None:
        await client.send(properties={"DELAY": "1"})

        def refuse(message: object) -> None:
            raise StoreUnwritable("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(broker.context.writer, "_put", refuse)
            await trio.sleep(30)
            assert await client.messages() == []
        await waited_for(client, "T")
        await trio.sleep(30)
        assert len(await client.messages()) == 1

    async def test_nothing_looks_at_the_clock_while_nothing_waits(
        self, broker: TestBroker, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
    ) -> None:
        looks = 0

        def counting() -> int:
            nonlocal looks
            looks += 1
            return now_ms()

        await wait_all_tasks_blocked()  # it looked once, at its start
        monkeypatch.setattr(broker.broker._delays, "_now_ms", counting)
        await trio.sleep(600)
        assert looks == 0


class TestSendBack:
    async def give_back(self, client: Client, sent: Frame, **fields: str) -> Frame:
        _, position = decode_offset_id(sent.fields["msgId"])
        header = {"offset": str(position), "group": "g", "delayLevel": "0", "unitMode": "false"}
        return await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, header | fields)

    async def test_a_message_comes_back_through_the_retry_topic(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        sent = await client.send("T", b"again", {"TAGS": "A", "UNIQ_KEY": "U"}, flag=5)
        assert (await self.give_back(client, sent)).code == 0
        given_back_ms = now_ms()
        message = await waited_for(client, "%RETRY%g")
        assert message.store_timestamp_ms - given_back_ms in range(10_000, 10_011)
        assert (message.body, message.flag, message.reconsume_times) == (b"again", 5, 1)
        assert message.born_timestamp_ms == 1_700_000_000_000
        expected = {
            "RETRY_TOPIC": "T",
            "ORIGIN_MESSAGE_ID": sent.fields["msgId"],
            "TAGS": "A",
            "UNIQ_KEY": "U",
        }
        assert message.properties.items() >= expected.items()
        assert "%RETRY%g" in [topic.topic_name for topic in broker.announced]

    async def test_the_first_topic_and_id_stay_over_several_times(
        self, client: Client, autojump_clock: MockClock
    ) -> None:
        sent = await client.send("T", b"again")
        answer = sent
        for times in range(1, 4):
            assert (await self.give_back(client, answer, delayLevel="1")).code == 0
            await trio.sleep(2)
            message = (await client.messages("%RETRY%g", offset=times - 1))[0]
            assert message.reconsume_times == times
            assert message.properties["RETRY_TOPIC"] == "T"
            assert message.properties["ORIGIN_MESSAGE_ID"] == sent.fields["msgId"]
            answer = Frame(code=0, fields={"msgId": message.offset_id})

    @pytest.mark.parametrize(
        ("reconsumed", "level", "waits_s"),
        [
            (0, "0", 10),
            (1, "0", 30),
            pytest.param(15, "0", 7200, marks=pytest.mark.slow),
            (3, "2", 5),
        ],
    )
    async def test_the_delay_grows_with_the_times_unless_one_is_given(
        self, client: Client, reconsumed: int, level: str, waits_s: int, autojump_clock: MockClock
    ) -> None:
        sent = await client.send(reconsume_times=reconsumed)
        await self.give_back(client, sent, delayLevel=level)
        given_back_ms = now_ms()
        message = await waited_for(client, "%RETRY%g")
        elapsed_ms = message.store_timestamp_ms - given_back_ms
        assert elapsed_ms in range(waits_s * 1000, waits_s * 1000 + 11)

    @pytest.mark.parametrize(
        ("version", "reconsumed", "fields", "is_dead"),
        [
            (407, 15, {}, False),
            (407, 16, {}, True),
            (407, 2, {"maxReconsumeTimes": "2"}, True),
            (407, 16, {"maxReconsumeTimes": "2147483647"}, False),
            (78, 2, {"maxReconsumeTimes": "2"}, False),
            (407, 0, {"delayLevel": "-1"}, True),
        ],
    )
    async def test_when_its_retries_are_used_up_it_is_dead(
        self,
        broker: TestBroker,
        version: int,
        reconsumed: int,
        fields: dict[str, str],
        is_dead: bool,
        autojump_clock: MockClock,
    ) -> None:
        client = broker.connect(version=version)
        sent = await client.send("T", b"x", reconsume_times=reconsumed)
        assert (await self.give_back(client, sent, **fields)).code == 0
        if is_dead:
            (message,) = await client.messages("%DLQ%g")
            assert (message.body, message.reconsume_times) == (b"x", reconsumed + 1)
            config = broker.context.topics.get("%DLQ%g")
            assert config is not None
            assert (config.write_queue_nums, config.perm) == (1, 6)
        else:
            assert broker.context.topics.get("%DLQ%g") is None

    async def test_what_is_refused(
        self, broker: TestBroker, client: Client, autojump_clock: MockClock
    ) -> None:
        sent = await client.send()
        groups, topics = broker.context.store.tables.groups, broker.context.topics
        nowhere = Frame(code=0, fields={"msgId": sent.fields["msgId"][:-1] + "1"})
        assert (await self.give_back(client, nowhere)).code == ResponseCode.SYSTEM_ERROR
        groups.put(SubscriptionGroupConfig("none", retry_queue_nums=0))
        assert (await self.give_back(client, sent, group="none")).code == 0
        assert topics.get("%RETRY%none") is None
        topics.put(TopicConfig("%RETRY%closed", 1, 1, perm=4))
        answer = await self.give_back(client, sent, group="closed")
        assert answer.code == ResponseCode.NO_PERMISSION
        broker.context.config.broker_permission = 4
        assert (await self.give_back(client, sent)).code == ResponseCode.NO_PERMISSION
        broker.context.config.broker_permission = 6
        broker.context.config.auto_create_subscription_group = False
        answer = await self.give_back(client, sent, group="unknown")
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class TestRetrySends:
    """Sends to the retry topic by a consumer whose send-back failed."""

    async def test_it_is_delayed_like_any_message(
        self, client: Client, autojump_clock: MockClock
    ) -> None:
        properties = {"DELAY": "4", "RETRY_TOPIC": "T", "TRAN_MSG": "true"}
        answer = await client.send("%RETRY%g", b"x", properties, reconsume_times=1)
        assert answer.code == 0
        message = await waited_for(client, "%RETRY%g")
        assert message.store_timestamp_ms - T0 in range(30_000, 30_020)
        assert (message.reconsume_times, message.properties["RETRY_TOPIC"]) == (1, "T")

    @pytest.mark.parametrize(
        ("version", "limit", "is_dead"), [(407, 3, True), (407, 4, False), (78, 3, False)]
    )
    async def test_beyond_its_limit_it_is_dead_without_a_delay(
        self, broker: TestBroker, version: int, limit: int, is_dead: bool, autojump_clock: MockClock
    ) -> None:
        client = broker.connect(version=version)
        await client.send(
            "%RETRY%g", b"x", {"DELAY": "4"}, reconsume_times=3, max_reconsume_times=limit
        )
        found = await client.messages("%DLQ%g")
        assert [message.body for message in found] == ([b"x"] if is_dead else [])

    async def test_an_unknown_group_is_refused(
        self, tmp_path: Path, autojump_clock: MockClock
    ) -> None:
        async with open_test_broker(
            tmp_path, now_ms=now_ms, auto_create_subscription_group=False
        ) as broker:
            answer = await broker.connect().send("%RETRY%nobody")
            assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    async def test_the_retry_topic_is_made_even_without_a_default_topic(
        self, client: Client, autojump_clock: MockClock
    ) -> None:
        answer = await client.send("%RETRY%g", default_topic="nowhere")
        assert (answer.code, answer.fields["queueId"]) == (0, "0")


async def test_a_message_that_cannot_be_committed_is_refused_and_not_there(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    await client.send(body=b"before")

    def fail() -> None:
        raise StoreUnwritable("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(broker.context.store, "write", fail)
        answer = await client.send(body=b"lost")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        header = send_header("T").to_letters()
        await client.peer.send(*(client.frame(310, header, b"lost") for _ in range(3)))
        for _ in range(3):
            assert (await client.peer.receive()).code == ResponseCode.SERVICE_NOT_AVAILABLE
    await wait_all_tasks_blocked()


async def test_what_comes_while_others_are_delivered_is_not_forgotten(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels that were looked at already get a message while a later one waits for the disk."""
    async with open_test_broker(tmp_path, now_ms=now_ms, flush_disk_type=FlushMode.SYNC) as broker:
        client, other, flushed = broker.connect(), broker.connect(), Store.flushed
        is_first = True

        async def flush(self: Store, position: int) -> None:
            nonlocal is_first
            if is_first and trio.current_time() >= LEVELS_S[1]:
                is_first = False
                await other.send("Sooner", properties={"DELAY": "1"})
            await flushed(self, position)

        monkeypatch.setattr(Store, "flushed", flush)
        await client.send("Later", properties={"DELAY": "2"})
        await waited_for(client, "Later")
        assert not is_first
        with trio.fail_after(100):
            await waited_for(client, "Sooner")


class TestUndeliverable:
    """One delayed message that cannot be delivered keeps no other waiting."""

    @pytest.mark.parametrize("length", [120, 128, 248, 249, 255])
    async def test_a_group_of_any_legal_length_gets_its_message_again_or_an_answer_at_once(
        self, broker: TestBroker, client: Client, length: int
    ) -> None:
        group = "g" * length
        assert (await client.heartbeat(consumers={group: {"T": "*"}})).code == 0
        await client.send("T", b"back")
        (message,) = await client.messages("T")
        answer = await client.call(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {"group": group, "offset": str(message.log_position), "delayLevel": "1"},
        )
        await client.send("T", b"other", {"DELAY": "1"}, queue_id=1)
        assert (await waited_for(client, "T", 1)).body == b"other"
        if length + len("%RETRY%") > 255:
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert "give the group a shorter" in (answer.remark or "")
        else:
            assert answer.code == 0
            again = await waited_for(client, "%RETRY%" + group)
            assert again.body == b"back"

    @pytest.mark.parametrize(
        "properties",
        [
            {"REAL_TOPIC": "%RETRY%" + "g" * 249, "REAL_QID": "0"},
            {"REAL_TOPIC": "a/b", "REAL_QID": "0"},
            {"REAL_TOPIC": "T", "REAL_QID": "9" * 5000},
            {"REAL_TOPIC": "T", "REAL_QID": "2147483648"},
            {"REAL_TOPIC": "T", "REAL_QID": "-1"},
            {"KEYS": "of nobody"},
        ],
    )
    async def test_what_waits_already_is_kept_where_it_is_seen(
        self, broker: TestBroker, client: Client, properties: dict[str, str]
    ) -> None:
        context = broker.context
        host = bytes((127, 0, 0, 1, 0, 0, 42, 159))
        context.store.put(
            NewMessage(
                topic="SCHEDULE_TOPIC_XXXX",
                queue_id=0,
                body=b"stuck",
                properties=encode_properties(properties | {"DELAY": "1"}),
                born_timestamp_ms=now_ms(),
                born_host=host,
                store_host=host,
            )
        )
        context.commit()
        await client.send("T", b"other", {"DELAY": "1"}, queue_id=1)
        assert (await waited_for(client, "T", 1)).body == b"other"
        stuck = await waited_for(client, "rmq_sys_UNDELIVERED")
        assert stuck.body == b"stuck"
        assert stuck.properties["DELAY"] == "1"
        assert (await client.send("rmq_sys_UNDELIVERED")).code == ResponseCode.NO_PERMISSION
        info = await client.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert KVTable.decode(info.body).table["undeliveredMessages"] == "1"

    async def test_a_lower_limit_of_messages_is_none_for_those_that_were_taken(
        self, tmp_path: Path, autojump_clock: MockClock
    ) -> None:
        async with open_test_broker(tmp_path, now_ms=now_ms) as before:
            client = before.connect()
            await client.send("T", b"x" * 2000, {"DELAY": "1"})
            await client.send("T", b"y" * 2000, queue_id=1)
        async with open_test_broker(tmp_path, now_ms=now_ms, max_message_size=1000) as broker:
            client = broker.connect()
            await client.heartbeat(consumers={"g": {"T": "*"}})
            assert (await client.send("T", b"z" * 1001)).code == ResponseCode.MESSAGE_ILLEGAL
            await client.send("T", b"other", {"DELAY": "1"}, queue_id=2)
            assert (await waited_for(client, "T", 2)).body == b"other"
            assert (await waited_for(client, "T")).body == b"x" * 2000
            (large,) = await client.messages("T", 1)
            answer = await client.call(
                RequestCode.CONSUMER_SEND_MSG_BACK,
                {"group": "g", "offset": str(large.log_position), "delayLevel": "1"},
            )
            assert answer.code == 0
            assert (await waited_for(client, "%RETRY%g")).body == b"y" * 2000
