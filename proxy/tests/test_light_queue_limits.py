"""Light queues have bounds: of one message, of all, and of one address."""

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lanemq.proxy.broker.handlers.sends import _send_special
from lanemq.proxy.broker.state import _recent_halves
from lanemq.storage import LIGHT_QUEUES_MAX
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.accounts import CHIEF, KINDS, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumerSendMsgBack, EndTransaction

SUCCESS, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY
ILLEGAL = ResponseCode.MESSAGE_ILLEGAL
ON: dict[str, Any] = {"enable_lmq": True, "enable_multi_dispatch": True}
WAITS: dict[str, dict[str, str]] = {
    "now": {},
    "a delay": {"DELAY": "1"},
    "a timer": {"TIMER_DELAY_SEC": "1"},
}
HALF = {"TRAN_MSG": "true", "PGROUP": "p"}


async def send(client: Client, *names: str, topic: str = "T", **more: str) -> Frame:
    lights = ",".join(f"%LMQ%{name}" for name in names)
    return await client.send(topic, b"x", {"INNER_MULTI_DISPATCH": lights} | more)


def known(broker: TestBroker) -> int:
    return sum(topic.startswith("%LMQ%") for topic, _ in broker.context.store.queues())


@pytest.mark.parametrize("more", [*WAITS.values(), HALF], ids=[*WAITS, "a transaction"])
async def test_a_message_names_so_many_light_queues(tmp_path: Path, more: dict[str, str]) -> None:
    async with open_test_broker(tmp_path, **ON) as broker:
        client = broker.connect()
        names = [f"q{number}" for number in range(LIGHT_QUEUES_MAX + 1)]
        many = await send(client, *names, **more)
        assert many.code == ILLEGAL
        assert "names 65 light queues in INNER_MULTI_DISPATCH, at most 64" in (many.remark or "")
        assert (await send(client, *names[:1] * 65, **more)).code == ILLEGAL, "one name, again"
        assert known(broker) == 0
        assert (await send(client, *names[:-1], **more)).code == SUCCESS
        assert (await client.send("T", b"plain")).code == SUCCESS


@pytest.mark.parametrize("kind", KINDS)
async def test_rights_to_light_queues_are_asked_for_so_many_alone(
    tmp_path: Path, kind: str
) -> None:
    async with open_guarded_broker(tmp_path, kind, **ON) as broker:
        chief, weak = (broker.connect("10.0.0.1", account=one) for one in (CHIEF, WEAK))
        for client in (chief, weak):
            assert (await send(client, *map(str, range(65)), topic="mine")).code == ILLEGAL
        assert (await send(chief, *map(str, range(64)), topic="mine")).code == SUCCESS
        assert (await send(weak, *map(str, range(64)), topic="mine")).code not in (SUCCESS, ILLEGAL)


async def test_light_queues_of_one_address_leave_some_to_others(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, max_lmq_consume_queue_num=100, **ON) as broker:
        codes = Counter[int]()
        for number in range(100):  # each by a connection of its own
            greedy = broker.connect("10.0.0.1")
            codes[(await send(greedy, f"q{number}")).code] += 1
            await greedy.peer.stream.aclose()
        assert codes == {SUCCESS: 76, BUSY: 24}
        greedy, other = broker.connect("10.0.0.1"), broker.connect("10.0.0.2")
        refused = await send(greedy, "q99")
        assert "10.0.0.1 have created 76 light queues" in (refused.remark or "")
        assert "maxLmqConsumeQueueNum" in (refused.remark or "")
        assert (await send(greedy, "q0", "q75")).code == SUCCESS, "they are there"
        assert (await send(greedy, "q0", "q99")).code == BUSY
        assert (await greedy.send("T", b"plain")).code == SUCCESS
        assert (await send(other, "r0", "r1")).code == SUCCESS
        assert known(broker) == 78
        for name in ("%LMQ%q0", "%LMQ%q1"):
            deleted = await other.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
            assert deleted.code == SUCCESS
        assert (await send(greedy, "q99")).code == BUSY
        deleted = await other.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%LMQ%q2"})
        assert deleted.code == SUCCESS
        assert (await send(greedy, "q99")).code == SUCCESS
        fill = [await send(other, f"r{number}") for number in range(2, 40)]
        assert Counter(one.code for one in fill) == {SUCCESS: 18, BUSY: 20}
        assert known(broker) == 94
    async with open_test_broker(tmp_path, max_lmq_consume_queue_num=94, **ON) as broker:
        third = broker.connect("10.0.0.3")
        assert (await send(third, "r0")).code == SUCCESS
        assert (await send(third, "s0")).code == BUSY, "those of before are counted"


@pytest.mark.parametrize("wait", ["a delay", "a timer"])
async def test_a_message_that_waits_has_its_light_queues_when_it_is_due(
    tmp_path: Path, wait: str
) -> None:
    clock = StandingClock()
    async with open_test_broker(
        tmp_path, now_ms=clock, max_lmq_consume_queue_num=4, **ON
    ) as broker:
        client = broker.connect()
        assert (await send(client, "a", "b", "c", **WAITS[wait])).code == SUCCESS
        assert (await send(client, "d", "e", **WAITS[wait])).code == BUSY
        clock.ms += 7000
        await broker.broker.clock_moved()
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        assert broker.context.store.bounds("%LMQ%c", 0) == (0, 1)
        assert broker.context.store.bounds("%LMQ%d", 0) == (0, 0)


async def test_light_queues_with_any_name_can_be_deleted(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, **ON) as broker:
        client = broker.connect()
        assert (await send(client, "a b.c")).code == SUCCESS
        for name, code in (
            ("%LMQ%a b.c", SUCCESS),
            ("%LMQ%a b.c", ResponseCode.SYSTEM_ERROR),  # it is no longer there
            ("%LMQ%/../../config", ResponseCode.SYSTEM_ERROR),
        ):
            deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
            assert deleted.code == code
        assert known(broker) == 0
        assert (await send(client, "n" * 300)).code == ILLEGAL
        assert known(broker) == 0


async def test_a_message_can_be_given_back_whose_light_queue_has_no_place_any_more(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path, max_lmq_consume_queue_num=2, **ON) as broker:
        client, other = broker.connect("10.0.0.1"), broker.connect("10.0.0.2")
        assert (await send(client, "a")).code == SUCCESS
        deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%LMQ%a"})
        assert deleted.code == SUCCESS
        assert (await send(other, "b")).code == SUCCESS
        assert (await send(client, "c")).code == SUCCESS
        assert (await send(client, "a")).code == BUSY
        (first, *_) = await client.all_messages("T")
        for level in (1, 0):
            header = ConsumerSendMsgBack(offset=first.log_position, group="g", delay_level=level)
            back = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_fields())
            assert back.code == SUCCESS, back.remark
        # Clients that cannot give one back send it to the retry topic themselves.
        assert (await send(client, "a", topic="%RETRY%g")).code == SUCCESS
        assert known(broker) == 2


@pytest.mark.parametrize("more", [*WAITS.values(), HALF], ids=[*WAITS, "a transaction"])
async def test_without_the_settings_a_message_may_name_what_it_likes(
    tmp_path: Path, more: dict[str, str]
) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        assert (await send(client, *map(str, range(65)), **more)).code == SUCCESS
        assert (await send(client, "n" * 300, **more)).code == SUCCESS
        assert known(broker) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_without_the_settings_the_number_of_light_queues_needs_no_right(
    tmp_path: Path, kind: str
) -> None:
    async with open_guarded_broker(tmp_path, kind) as broker:
        chief = broker.connect("10.0.0.1", account=CHIEF)
        assert (await send(chief, *map(str, range(65)), topic="mine")).code == SUCCESS
        weak = broker.connect("10.0.0.2", account=WEAK)
        # They may be due when the settings are there.
        assert (await send(weak, *map(str, range(65)), topic="mine")).code not in (SUCCESS, ILLEGAL)


def places(broker: TestBroker) -> set[str]:
    """The light queues that count, or that the store has made."""
    lights, queues = broker.context.light_queues, broker.context.store.queues()
    made = {topic for topic, _ in queues if topic.startswith("%LMQ%")}
    return made | {name for name in (f"%LMQ%q{number}" for number in range(9)) if name in lights}


async def test_a_refused_send_takes_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path, max_lmq_consume_queue_num=8, **ON) as broker:
        client = broker.connect("10.0.0.1")
        long = await send(client, "q0", x="y" * 32_700)
        assert long.code == ILLEGAL
        large = await client.send("T", bytes(5 << 20), {"INNER_MULTI_DISPATCH": "%LMQ%q1"})
        assert large.code == ILLEGAL
        assert (await send(client, "q2", "n" * 300)).code == ILLEGAL
        assert places(broker) == set()

        def full(*_: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            for more in (*WAITS.values(), HALF):
                failed = await send(client, "q3", **more)
                assert failed.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "%LMQ%q3" not in broker.context.light_queues
        for number in range(7):
            assert (await send(client, f"q{number}")).code == SUCCESS, "the share is free"
        assert (await send(client, "q7")).code == BUSY


async def begun(client: Client, topic: str = "T", **properties: str) -> tuple[Frame, Frame]:
    """Send a half message; return its answer and the request that commits it."""
    half = await client.send(topic, b"x", HALF | {"UNIQ_KEY": "k"} | properties)
    assert half.code == SUCCESS, half.remark
    position = int(half.fields["msgId"][-16:], 16)
    end = EndTransaction(
        producer_group="p",
        tran_state_table_offset=int(half.fields["queueOffset"]),
        commit_log_offset=position,
        commit_or_rollback=8,
        msg_id="",
        transaction_id="",
        topic=topic,
    )
    return half, client.frame(RequestCode.END_TRANSACTION, end.to_fields())


async def test_a_half_message_is_in_its_light_queues_once_it_is_committed(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, **ON) as broker:
        client, store = broker.connect(), broker.context.store
        _, commit = await begun(client, INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%b")
        assert [store.bounds(f"%LMQ%{name}", 0) for name in "ab"] == [(0, 0)] * 2
        assert (await client.peer.call(commit)).code == SUCCESS
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        assert [store.bounds(f"%LMQ%{name}", 0) for name in "ab"] == [(0, 1)] * 2


def lights_of(*names: str) -> dict[str, str]:
    return {"INNER_MULTI_DISPATCH": ",".join(f"%LMQ%{name}" for name in names)}


async def rolled_back(client: Client, commit: Frame) -> Frame:
    return await client.call(
        RequestCode.END_TRANSACTION, commit.fields | {"commitOrRollback": "12"}
    )


@pytest.mark.parametrize("is_recent", [True, False], ids=["at once", "later"])
async def test_a_transaction_that_is_rolled_back_gives_back_what_nothing_else_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_recent: bool
) -> None:
    if not is_recent:  # as if they were of long ago
        monkeypatch.setattr(_recent_halves, "BYTES_MAX", 0)
    async with open_test_broker(tmp_path, max_lmq_consume_queue_num=8, **ON) as broker:
        client = broker.connect("10.0.0.1")
        _, one = await begun(client, **lights_of("q0", "q1", "q1", "q2"))
        _, two = await begun(client, **lights_of("q1"))
        _, three = await begun(client, **lights_of("q2", "q3", "q4", "q5"))
        assert places(broker) == {f"%LMQ%q{number}" for number in range(6)}
        assert (await send(client, "q2")).code == SUCCESS
        assert (await send(client, "q5", DELAY="3")).code == SUCCESS
        assert (await rolled_back(client, one)).code == SUCCESS
        assert places(broker) == {f"%LMQ%q{number}" for number in range(1, 6)}
        assert (await rolled_back(client, one)).code == ResponseCode.SYSTEM_ERROR, "it was"
        assert places(broker) == {f"%LMQ%q{number}" for number in range(1, 6)}
        assert (await rolled_back(client, two)).code == SUCCESS
        assert (await rolled_back(client, three)).code == SUCCESS
        assert places(broker) == {"%LMQ%q2", "%LMQ%q5"}
        for number in range(40):  # its share is free again, too
            _, again = await begun(client, **lights_of(*(f"r{number}{one}" for one in "abcd")))
            assert (await rolled_back(client, again)).code == SUCCESS
        _, last = await begun(client, **lights_of("q6"))
        assert (await client.peer.call(last)).code == SUCCESS
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        assert places(broker) == {"%LMQ%q2", "%LMQ%q5", "%LMQ%q6"}


async def test_a_half_message_of_before_the_start_gives_back_no_place_of_another(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path, **ON) as broker:
        _, old = await begun(broker.connect(), **lights_of("q0"))
    async with open_test_broker(tmp_path, **ON) as broker:
        client = broker.connect()
        _, young = await begun(client, **lights_of("q0"))
        assert (await rolled_back(client, old)).code == SUCCESS
        assert places(broker) == {"%LMQ%q0"}
        assert (await rolled_back(client, young)).code == SUCCESS
        assert places(broker) == set()


async def test_a_rollback_that_is_not_written_gives_back_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async with open_test_broker(tmp_path, **ON) as broker:
        client = broker.connect()
        _, half = await begun(client, **lights_of("q0"))
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            assert (await rolled_back(client, half)).code != SUCCESS
        assert places(broker) == {"%LMQ%q0"}
        assert (await rolled_back(client, half)).code == SUCCESS
        assert places(broker) == set()


async def test_a_discarded_half_message_gives_back_its_places_until_it_is_resumed(
    tmp_path: Path,
) -> None:
    async with open_test_broker(
        tmp_path, transaction_time_out=0, transaction_check_max=1, **ON
    ) as broker:
        client = broker.connect()
        _, end = await begun(client, **lights_of("q0", "q1"))
        assert places(broker) == {"%LMQ%q0", "%LMQ%q1"}
        await broker.broker._transactions.check()
        assert places(broker) == set()
        (kept,) = await client.all_messages("TRANS_CHECK_MAX_TIME_TOPIC")
        resumed = await client.call(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": kept.offset_id}
        )
        assert resumed.code == SUCCESS, resumed.remark
        assert places(broker) == {"%LMQ%q0", "%LMQ%q1"}
        assert (await rolled_back(client, end)).code == SUCCESS, "of the one that was put aside"
        assert places(broker) == {"%LMQ%q0", "%LMQ%q1"}


async def test_a_discarded_half_message_comes_to_no_light_queue(tmp_path: Path) -> None:
    async with open_test_broker(
        tmp_path, transaction_time_out=0, transaction_check_max=1, **ON
    ) as broker:
        client = broker.connect()
        await begun(client, INNER_MULTI_DISPATCH="%LMQ%a")
        for _ in range(2):
            await broker.broker._transactions.check()
        assert len(await client.all_messages("TRANS_CHECK_MAX_TIME_TOPIC")) == 1
        assert broker.context.store.bounds("%LMQ%a", 0) == (0, 0)


@pytest.mark.parametrize("names", [[f"q{n}" for n in range(70)], ["a", "n" * 300, "b"]])
@pytest.mark.parametrize("room", [True, False], ids=["with room", "without"])
async def test_a_half_message_of_before_the_limits_can_be_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], *, room: bool
) -> None:
    """The settings were off when it was sent, or it is from before there was a limit."""
    lights = ",".join(f"%LMQ%{name}" for name in names)
    padding = {} if room else {"x": "y" * (32_500 - len(lights))}
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        with monkeypatch.context() as patched:
            patched.setattr(_send_special, "check_room", lambda *_, **__: None)
            _, commit = await begun(client, INNER_MULTI_DISPATCH=lights, **padding)
    possible = [f"%LMQ%{name}" for name in names if len(name) < 255][:LIGHT_QUEUES_MAX]
    if not room:
        possible = possible[: len(possible) // 4]
    async with open_test_broker(tmp_path, max_lmq_consume_queue_num=1, **ON) as broker:
        client, store = broker.connect(), broker.context.store
        answer = await client.peer.call(commit)
        assert answer.code == SUCCESS, answer.remark
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        assert len(await client.all_messages("T")) == 1
        assert [store.bounds(name, 0) for name in possible] == [(0, 1)] * len(possible)
        assert room is False or known(broker) == len(possible)


@pytest.mark.parametrize("more", [WAITS["a delay"], WAITS["a timer"], HALF])
async def test_what_waits_leaves_room_for_its_offsets_in_light_queues(
    tmp_path: Path, more: dict[str, str]
) -> None:
    clock = StandingClock()
    async with open_test_broker(tmp_path, now_ms=clock, **ON) as broker:
        client = broker.connect()
        lights = {"INNER_MULTI_DISPATCH": ",".join(f"%LMQ%q{n}" for n in range(64))}
        size = 32_700
        while (await client.send("T", b"x", more | lights | {"x": "y" * size})).code != SUCCESS:
            size -= 50
        assert size < 32_000
        clock.ms += 7000
        await broker.broker.clock_moved()
        if more is HALF:
            _, commit = await begun(client, x="y" * (size - 20), **lights)
            assert (await client.peer.call(commit)).code == SUCCESS
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        assert broker.context.store.bounds("%LMQ%q63", 0)[1] >= 1
        assert broker.context.statistics.undelivered == 0
