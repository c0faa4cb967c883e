"""A half message is seen by nobody until its transaction is committed, and once then."""

import gc
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.broker.state._stored_again import stored_again
from lanemq.proxy.broker.transactions import _checks, _rules, _table
from lanemq.proxy.broker.transactions._ends import ENDED_ALREADY
from lanemq.storage import FlushMode, StoreUnwritable, Unit
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, send_header
from lanemq.wire import RequestCode, ResponseCode, SystemTopic
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CheckTransactionState, EndTransaction
from lanemq.wire.message import StoredMessage, decode_message, decode_offset_id, encode_properties

HALF, OP = SystemTopic.TRANSACTION_HALF, SystemTopic.TRANSACTION_OP_HALF
ASIDE = SystemTopic.TRANSACTION_CHECK_MAX_TIME
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
BORN_MS = 1_700_000_000_000
PROPERTIES = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1", "TAGS": "A"}
TIMEOUT_MS = 6000
ORIGIN = "TRAN_PREPARED_QUEUE_OFFSET"


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


async def send_half(client: Client, key: str = "U1", **changes: object) -> Frame:
    properties = PROPERTIES | {"UNIQ_KEY": key} | changes.pop("properties", {})  # type: ignore[operator]
    answer = await client.send("T", key.encode(), properties, **{"sys_flag": 4, **changes})
    assert answer.code == 0, answer.remark
    return answer


async def end(
    client: Client, half: Frame | CheckTransactionState, state: int, **changes: object
) -> Frame:
    """Ask with an answer, which clients do not want, but tests do."""
    if isinstance(half, CheckTransactionState):
        offset, position = half.tran_state_table_offset, half.commit_log_offset
    else:
        offset = int(half.fields["queueOffset"])
        position = decode_offset_id(half.fields["msgId"])[1]
    values: dict[str, object] = {
        "producer_group": "pg",
        "tran_state_table_offset": offset,
        "commit_log_offset": position,
        "commit_or_rollback": state,
        "msg_id": "U1",
        **changes,
    }
    return await client.call(RequestCode.END_TRANSACTION, EndTransaction(**values).to_fields())  # type: ignore[arg-type]


async def bodies(client: Client, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in await client.messages(topic, queue_id)]


async def check(broker: TestBroker, clock: StandingClock, *, after_ms: int = TIMEOUT_MS) -> None:
    clock.ms += after_ms
    await broker.broker.clock_moved()


async def asked(client: Client) -> tuple[CheckTransactionState, Frame]:
    """The next question of the broker."""
    if not client.pushed:
        with trio.fail_after(60):
            client.pushed.append(await client.peer.receive())
    frame = client.pushed.pop(0)
    assert (frame.code, frame.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    return CheckTransactionState.from_fields(frame.fields), frame


async def test_a_half_message_waits_in_the_half_queue(client: Client) -> None:
    answer = await send_half(client, queue_id=2, flag=3)
    assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("2", "0")
    assert await bodies(client, queue_id=2) == []
    (half,) = await client.messages(HALF)
    assert half.offset_id == answer.fields["msgId"]
    assert (half.body, half.flag, half.sys_flag) == (b"U1", 3, 0)
    stored = half.properties
    assert {name: stored[name] for name in PROPERTIES} == PROPERTIES
    assert (stored["REAL_TOPIC"], stored["REAL_QID"]) == ("T", "2")


@pytest.mark.parametrize(("topic", "queue_id"), [(HALF, "0"), ("T", "-1"), ("", "")])
async def test_a_half_message_that_can_go_nowhere_is_refused_with_where_it_says(
    broker: TestBroker, client: Client, topic: str, queue_id: str
) -> None:
    half = await send_half(client)
    stored = broker.context.store.message_at(decode_offset_id(half.fields["msgId"])[1])
    assert stored is not None
    texts = stored.properties | {"REAL_TOPIC": topic, "REAL_QID": queue_id}
    broker.context.writer.append(stored_again(stored, HALF, 0, properties=encode_properties(texts)))
    broker.context.commit()
    _, odd = await client.messages(HALF)
    place = CheckTransactionState(
        tran_state_table_offset=odd.queue_offset, commit_log_offset=odd.log_position
    )
    refused = await end(client, place, COMMIT)
    assert refused.code == 1
    assert f"REAL_TOPIC {topic!r} and REAL_QID {queue_id!r}" in (refused.remark or "")
    assert len(await client.messages(HALF)) == 2, "nothing was begun again"
    assert (await end(client, place, ROLLBACK)).code == 0


async def test_a_commit_delivers_the_message_with_what_java_clients_look_at(
    client: Client,
) -> None:
    half = await send_half(client, queue_id=2, flag=3)
    assert (await end(client, half, COMMIT)).code == 0
    (message,) = await client.messages("T", 2)
    assert (message.body, message.flag, message.tags) == (b"U1", 3, "A")
    assert (message.sys_flag & 12, message.born_timestamp_ms) == (COMMIT, BORN_MS)
    _, position = decode_offset_id(half.fields["msgId"])
    assert message.prepared_transaction_offset == position
    expected = PROPERTIES | {"REAL_TOPIC": "T", "REAL_QID": "2"}
    assert {name: message.properties[name] for name in expected} == expected
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in message.properties
    (op,) = await client.messages(OP)
    assert (op.body, op.tags) == (b"0", "d"), "as 4.x and 5.x read it"


async def test_a_rollback_delivers_nothing(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    half = await send_half(client)
    assert (await end(client, half, ROLLBACK)).code == 0
    assert [op.body for op in await client.messages(OP)] == [b"0"]
    await check(broker, clock)
    assert len(await client.messages(HALF)) == 1, "nothing is asked about it"
    assert await bodies(client) == []


@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
async def test_only_the_first_end_of_a_transaction_counts(
    client: Client, first: int, second: int
) -> None:
    half = await send_half(client)
    assert (await end(client, half, first)).code == 0
    answer = await end(client, half, second)
    assert (answer.code, answer.remark) == (1, ENDED_ALREADY)
    assert await bodies(client) == ([b"U1"] if first == COMMIT else [])
    assert len(await client.messages(OP)) == 1


async def test_two_ends_in_one_read_are_one(client: Client) -> None:
    half = await send_half(client)
    fields = EndTransaction(
        producer_group="pg",
        tran_state_table_offset=0,
        commit_log_offset=decode_offset_id(half.fields["msgId"])[1],
        commit_or_rollback=COMMIT,
        msg_id="U1",
    ).to_fields()
    frames = [client.frame(RequestCode.END_TRANSACTION, fields) for _ in range(2)]
    await client.peer.send(*frames)
    assert [(await client.peer.receive()).code for _ in frames] == [0, 1]
    assert await bodies(client) == [b"U1"]


async def test_an_end_for_something_else_touches_nothing(client: Client) -> None:
    plain = await client.send("T", b"plain", {"PGROUP": "pg"})
    half = await send_half(client)
    _, position = decode_offset_id(half.fields["msgId"])
    for named, changes, remark in (
        (plain, {}, "Find prepared transaction message failed"),
        (half, {"commit_log_offset": position + 1}, "Find prepared transaction message failed"),
        (half, {"commit_log_offset": 1 << 60}, "Find prepared transaction message failed"),
        (half, {"commit_log_offset": -1}, "Find prepared transaction message failed"),
        (half, {"producer_group": "others"}, "The producer group wrong"),
        (half, {"tran_state_table_offset": 7}, "The transaction state table offset wrong"),
    ):
        answer = await end(client, named, COMMIT, **changes)
        assert (answer.code, answer.remark) == (1, remark)
    assert await bodies(client) == [b"plain"]
    assert await client.messages(OP) == []
    assert (await end(client, half, COMMIT)).code == 0


async def test_an_unknown_state_is_not_answered(client: Client) -> None:
    half = await send_half(client)
    fields = EndTransaction("pg", 0, 0, UNKNOWN, "U1").to_fields()
    await client.peer.send(client.frame(RequestCode.END_TRANSACTION, fields))
    assert (await end(client, half, ROLLBACK)).code == 0, "the next answer is the next one's"


async def test_a_producer_is_asked_and_its_answer_counts(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    half = await send_half(client, queue_id=1)
    await client.heartbeat("producer", producers=("pg",))
    await check(broker, clock, after_ms=TIMEOUT_MS - 1)
    assert len(await client.messages(HALF)) == 1, "it has six seconds"
    await check(broker, clock, after_ms=1)
    header, frame = await asked(client)
    message = decode_message(frame.body)
    assert (message.topic, message.queue_id, message.body) == ("T", 1, b"U1")
    assert (message.queue_offset, message.log_position) == (1, header.commit_log_offset)
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert header.tran_state_table_offset == 1
    assert header.msg_id == header.transaction_id == "U1"
    assert decode_offset_id(header.offset_msg_id or "")[1] == header.commit_log_offset
    assert header.commit_log_offset > decode_offset_id(half.fields["msgId"])[1]
    assert (await end(client, header, COMMIT, from_transaction_check=True)).code == 0
    assert await bodies(client, queue_id=1) == [b"U1"]
    await check(broker, clock)
    assert len(await client.messages(HALF)) == 2


@pytest.mark.parametrize("late", [COMMIT, ROLLBACK])
async def test_an_end_that_was_on_its_way_while_the_broker_asked_ends_it_once(
    broker: TestBroker, client: Client, clock: StandingClock, late: int
) -> None:
    half = await send_half(client)
    await client.heartbeat("producer", producers=("pg",))
    await check(broker, clock)
    first, _ = await asked(client)
    await check(broker, clock)
    second, _ = await asked(client)
    assert (await end(client, half, late)).code == 0
    for header in (first, second):
        answer = await end(client, header, COMMIT, from_transaction_check=True)
        assert (answer.code, answer.remark) == (1, ENDED_ALREADY)
    assert await bodies(client) == ([b"U1"] if late == COMMIT else [])
    await check(broker, clock)
    assert len(await client.messages(HALF)) == 3, "nobody is asked again"


async def test_any_live_producer_of_the_group_is_asked_in_turn(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    await send_half(client)
    others = [broker.connect() for _ in range(2)]
    for number, other in enumerate(others):
        await other.heartbeat(f"p{number}", producers=("pg",))
    stranger = broker.connect()
    await stranger.heartbeat("stranger", producers=("another",))
    for _ in range(4):
        await check(broker, clock)
    for other in others:
        answer = await other.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        assert answer.code == 0
        assert len(other.pushed) == 2
    await stranger.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
    assert stranger.pushed == []


async def test_a_transaction_that_nobody_answers_for_is_put_aside(
    tmp_path: Path, clock: StandingClock
) -> None:
    async with open_test_broker(
        tmp_path, now_ms=lambda: clock.ms, transaction_check_max=3
    ) as broker:
        client = broker.connect()
        half = await send_half(client)
        for _ in range(4):
            await check(broker, clock)
        assert [
            m.properties.get("TRANSACTION_CHECK_TIMES") for m in await client.messages(HALF)
        ] == [
            None,
            "1",
            "2",
            "3",
        ], "dead producers count, too"
        (aside,) = await client.messages(ASIDE)
        assert (aside.body, aside.properties["REAL_TOPIC"]) == (b"U1", "T")
        await check(broker, clock)
        assert len(await client.messages(HALF)) == 4

        answer = await client.call(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, {"topic": "T", "msgId": aside.offset_id}
        )
        assert answer.code == 0
        assert len(await client.messages(HALF)) == 5
        await client.heartbeat("producer", producers=("pg",))
        await check(broker, clock)
        header, _ = await asked(client)
        assert (await end(client, header, COMMIT)).code == 0
        assert await bodies(client) == [b"U1"]
        assert half.code == 0


async def test_a_half_message_older_than_the_log_is_put_aside(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    await send_half(client, born_timestamp=BORN_MS - 73 * 3_600_000)
    await check(broker, clock, after_ms=0)
    assert await bodies(client, ASIDE) == [b"U1"]


async def test_a_producer_may_ask_for_more_time(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    await send_half(client, "slow", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"})
    await send_half(client, "quick")
    await check(broker, clock)
    assert [m.body for m in await client.messages(HALF)] == [b"slow", b"quick", b"quick"]
    await check(broker, clock, after_ms=60_000)
    assert [m.body for m in await client.messages(HALF)][3:] == [b"slow", b"quick"]


async def test_time_that_a_producer_asks_for_ends_when_many_have_come_behind(
    broker: TestBroker, client: Client, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of half messages would grow until the log's files go."""
    monkeypatch.setattr(_rules, "BEHIND_MAX", 4)
    await send_half(client, "slow", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"})
    for number in range(3):
        await end(client, await send_half(client, f"{number}"), COMMIT)
    await check(broker, clock)
    assert len(await client.messages(HALF)) == 4
    await end(client, await send_half(client, "last"), COMMIT)
    await check(broker, clock)
    assert [m.body for m in await client.messages(HALF)][5:] == [b"slow"]


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the queue offset of each half message that checks read."""
    read, seen = _table.HalfTable.read, list[int]()

    def counted(table: _table.HalfTable, unit: Unit) -> StoredMessage | None:
        half = read(table, unit)
        assert half is not None
        seen.append(half.queue_offset)
        return half

    monkeypatch.setattr(_table.HalfTable, "read", counted)
    return seen


async def test_half_messages_that_may_take_their_time_are_not_read_in_every_round(
    broker: TestBroker, client: Client, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = count_reads(monkeypatch)
    number = 3 * _table.BATCH + 5
    for each in range(number):
        asked_s = 60 if each == _table.BATCH + 7 else 3600
        immune = {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(asked_s)}
        halves = await send_half(client, f"{each}", properties=immune)
    await check(broker, clock)
    assert sorted(read) == [*range(number)]
    await send_half(client, "young", born_timestamp=clock.ms)
    read.clear()
    await check(broker, clock, after_ms=TIMEOUT_MS - 1)
    assert read == [number]
    await end(client, halves, COMMIT)
    read.clear()
    await check(broker, clock, after_ms=60_000)
    assert _table.BATCH + 7 in read
    # Those that were looked at together, the young one and its copy.
    assert len(read) <= _table.BATCH + 2
    assert [m.body for m in await client.all_messages(HALF)][number + 1 :] == [b"71", b"young"]
    read.clear()
    await check(broker, clock, after_ms=-80_000)  # to before the first round
    assert len({*read}) >= number - 2


@pytest.mark.parametrize("seed", range(3))
async def test_rounds_that_remember_ask_as_those_that_read_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Two brokers do the same, of which one remembers nothing of a round."""
    monkeypatch.setattr(_checks, "BATCH", 4)
    monkeypatch.setattr(_checks, "BATCH_BYTES", 800)
    monkeypatch.setattr(_rules, "BEHIND_MAX", 60)
    rng, clock, reads = random.Random(seed), StandingClock(), count_reads(monkeypatch)
    halves: list[list[Frame]] = []
    read = [0, 0]
    async with AsyncExitStack() as stack:
        opened = [
            open_test_broker(
                tmp_path / name, now_ms=lambda: clock.ms, transaction_check_interval=36_000_000
            )
            for name in ("remembers", "forgets")
        ]
        brokers = [await stack.enter_async_context(one) for one in opened]
        clients = [one.connect() for one in brokers]
        for step in range(120):
            if rng.random() < 0.5:
                asked_s = rng.choice(("", "-1", "0", "5", "20", "60", "60", "600", "600"))
                more = {"CHECK_IMMUNITY_TIME_IN_SECONDS": asked_s} if asked_s else {}
                more |= {"WIDE": "x" * 400} if rng.random() < 0.1 else {}
                born_ms = clock.ms + rng.choice((0, 0, 0, -10_000, 10_000))
                sent = {"properties": more, "born_timestamp": born_ms}
                halves.append([await send_half(one, f"{step}", **sent) for one in clients])
            elif halves and rng.random() < 0.4:
                for one, half in zip(clients, halves.pop(rng.randrange(len(halves))), strict=True):
                    await end(one, half, COMMIT)
            else:
                clock.ms += rng.choice((0, 1000, 6000, 6000, 20_000, 60_000, -3000))
                for number, broker in enumerate(brokers):
                    reads.clear()
                    with monkeypatch.context() as patches:
                        if number:
                            patches.setattr(_rules.Passed, "holds", lambda *_, **__: False)
                        await broker.broker.clock_moved()
                    read[number] += len(reads)
                ends = [one.context.store.bounds(HALF, 0) for one in brokers]
                assert ends[0] == ends[1], step
        told = [
            [(one.body, one.properties_data) for one in await client.all_messages(HALF)]
            for client in clients
        ]
        assert told[0] == told[1]
    assert 0 < read[0] < read[1]


async def test_a_message_may_be_delayed_once_it_is_committed(client: Client) -> None:
    half = await send_half(client, properties={"DELAY": "1"})
    assert (await end(client, half, COMMIT)).code == 0
    assert await bodies(client) == []
    assert await bodies(client, SystemTopic.SCHEDULE) == [b"U1"]


async def test_transactions_go_on_after_a_restart(tmp_path: Path, clock: StandingClock) -> None:
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        client = broker.connect()
        halves = {key: await send_half(client, key) for key in ("done", "undone", "open", "late")}
        await end(client, halves["done"], COMMIT)
        await end(client, halves["undone"], ROLLBACK)
        await check(broker, clock)
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        client = broker.connect()
        assert (await end(client, halves["late"], COMMIT)).code == 0
        await client.heartbeat("producer", producers=("pg",))
        await check(broker, clock)
        header, frame = await asked(client)
        assert decode_message(frame.body).body == b"open", "the others have ended"
        assert decode_message(frame.body).properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert (await end(client, header, COMMIT)).code == 0
        for key in ("done", "undone"):
            await end(client, halves[key], COMMIT)
        assert sorted(await bodies(client)) == [b"done", b"late", b"open"]


@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize(("topic", "group"), [("T", "another"), ("Another", "pg")])
async def test_after_a_restart_no_half_message_is_taken_for_a_copy_of_anothers(
    tmp_path: Path, clock: StandingClock, topic: str, group: str, is_ended: bool
) -> None:
    """It has the same unique key, and says that it has been checked."""
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        client = broker.connect()
        half = await send_half(client, "U1")
        claims = PROPERTIES | {"PGROUP": group, "TRANSACTION_CHECK_TIMES": "1"}
        claimed = await client.send(topic, b"claims", claims, sys_flag=4)
        if is_ended:
            assert (await end(client, claimed, ROLLBACK, producer_group=group)).code == 0
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        client = broker.connect()
        if not is_ended:
            assert (await end(client, claimed, ROLLBACK, producer_group=group)).code == 0
        await client.heartbeat("producer", producers=("pg",))
        await check(broker, clock)
        header, frame = await asked(client)
        assert decode_message(frame.body).body == b"U1"
        assert (await end(client, header, COMMIT)).code == 0
        assert (await end(client, half, COMMIT)).code == 1, "it has ended"
        assert await bodies(client) == [b"U1"]


async def test_a_broker_that_is_told_to_refuses_half_messages(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, reject_transaction_message=True) as broker:
        client = broker.connect()
        answer = await client.send("T", b"half", PROPERTIES, sys_flag=4)
        assert answer.code == 16
        assert "sending transaction message is forbidden" in (answer.remark or "")
        assert await client.messages(HALF) == []


async def test_clients_cannot_write_into_the_queues_of_transactions(client: Client) -> None:
    for topic in (HALF, OP, ASIDE):
        fields = send_header(topic).to_letters()
        assert (await client.call(RequestCode.SEND_MESSAGE_V2, fields, b"x")).code == 16


@settings(max_examples=20)
@given(
    born_host=st.sampled_from(["127.0.0.1", "::1"]),
    changes=st.fixed_dictionaries(
        {},
        optional={
            "flag": st.integers(-(2**31), 2**31 - 1),
            "queue_id": st.integers(0, 3),
            "reconsume_times": st.integers(0, 3),
            "sys_flag": st.sampled_from([0, 1, 4, 5, 12]),
            "properties": st.dictionaries(
                st.sampled_from(("KEYS", "REAL_TOPIC", "REAL_QID", ORIGIN, "WAIT", "CLUSTER", "x")),
                st.sampled_from(["0", "1", "another", "ä"]),
                max_size=4,
            ),
        },
    ),
)
async def test_a_committed_message_is_the_same_whether_its_half_message_is_read_or_not(
    tmp_path_factory: pytest.TempPathFactory, born_host: str, changes: dict[str, Any]
) -> None:
    """A message of a moment ago is committed without a look into the log, later ones with one."""
    folder, found = tmp_path_factory.mktemp("store"), list[object]()
    async with open_test_broker(folder) as broker:
        client = broker.connect(born_host)
        halves = [await send_half(client, **dict(changes)) for _ in range(2)]
        assert (await end(client, halves[0], COMMIT)).code == 0
    async with open_test_broker(folder) as broker:
        client = broker.connect()
        assert (await end(client, halves[1], COMMIT)).code == 0
        for message in await client.messages("T", int(str(changes.get("queue_id", 0)))):
            place = message.queue_offset, message.log_position, message.prepared_transaction_offset
            assert place[2] == decode_offset_id(halves[place[0]].fields["msgId"])[1]
            found.append(
                structs.replace(
                    message,
                    queue_offset=0,
                    log_position=0,
                    prepared_transaction_offset=0,
                    store_timestamp_ms=0,
                )
            )
    assert len(found) == 2
    assert found[0] == found[1]


async def test_ends_of_half_messages_that_many_others_followed(tmp_path: Path) -> None:
    """Only the youngest are at hand; the others are read."""
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        halves = [
            await client.send("T", b"%d" % n + bytes(1 << 18), PROPERTIES, sys_flag=4)
            for n in range(20)
        ]
        assert [(await end(client, half, COMMIT)).code for half in halves] == [0] * len(halves)
        assert [(await end(client, half, COMMIT)).code for half in halves] == [1] * len(halves)
        messages = await client.all_messages("T")
        assert [message.body[:2].rstrip(b"\0") for message in messages] == [
            b"%d" % n for n in range(20)
        ]
        assert len(await client.all_messages(OP)) == 20


async def test_an_end_that_cannot_be_written_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StoreUnwritable("disk full")

    async with open_test_broker(tmp_path, flush_disk_type=FlushMode.SYNC) as broker:
        client = broker.connect()
        half = await send_half(client)
        table, answers = broker.broker._transactions._table, list[Frame]()
        table.loaded = trio.Event()  # as while a broker with many half messages starts

        async def end_it() -> None:
            answers.append(await end(client, half, COMMIT))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_it)
            await wait_all_tasks_blocked()
            with monkeypatch.context() as patch:
                patch.setattr(broker.context.store, "write", fail)
                table.loaded.set()
                await wait_all_tasks_blocked()
        assert [answer.code for answer in answers] == [ResponseCode.SERVICE_NOT_AVAILABLE]
        gc.collect()  # a coroutine that nobody awaited would be complained about now


async def test_a_start_reads_half_messages_by_bytes_in_each_turn(
    tmp_path: Path, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        client = broker.connect()
        for number in range(8):
            body = bytes(100_000)
            fields = {"properties": encode_properties(PROPERTIES).decode(), "sys_flag": 4}
            header = send_header("T", **fields)  # type: ignore[arg-type]
            answer = await client.call(RequestCode.SEND_MESSAGE_V2, header.to_letters(), body)
            assert answer.code == 0, number
    monkeypatch.setattr(_table, "BATCH_BYTES", 100_000)
    turns = Counter[int]()
    turn = 0
    found = _table.HalfTable._found

    def counted(table: _table.HalfTable, position: int, is_meant: Any) -> Any:  # noqa: ANN401
        turns[turn] += 1
        return found(table, position, is_meant)

    async def next_turn() -> None:
        nonlocal turn
        turn += 1
        await checkpoint()

    checkpoint = trio.lowlevel.checkpoint
    monkeypatch.setattr(_table.HalfTable, "_found", counted)
    monkeypatch.setattr(trio.lowlevel, "checkpoint", next_turn)
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        while not sum(turns.values()) >= 8:
            await checkpoint()
    assert max(turns.values()) <= 2
