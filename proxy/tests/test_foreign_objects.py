"""Whatever a request says about itself, it needs the right to the objects that it touches.

A weak user, who may use the topic ``mine`` and the group ``mine``, tries to get at messages,
transactions, timers and groups of somebody else, with requests that he may make.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from lanemq.proxy.sessions.values._touched import touched_by_reading
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.accounts import (
    ACCOUNTS,
    BARE,
    CHIEF,
    KINDS,
    OWNER,
    WEAK,
    open_guarded_broker,
)
from lanemq.testkit.proxy.brokers import Client, TestBroker, pull_header, send_header
from lanemq.wire import WAITING_TOPICS, SystemTopic
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode as Response
from lanemq.wire.bodies import (
    AclInfo,
    HeartbeatData,
    LockBatch,
    LockBatchResult,
    MessageQueue,
    PolicyEntryInfo,
    PolicyInfo,
    ProducerData,
    TopicConfig,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CloneGroupOffset,
    ConsumeMessageDirectly,
    ConsumerSendMsgBack,
    EndTransaction,
    ResumeCheckHalfMessage,
    ViewMessage,
)
from lanemq.wire.logical import SERVERS_FIELDS
from lanemq.wire.message import BatchEntry, decode_offset_id, encode_batch

COMMIT, ROLLBACK = 8, 12
HALF = {"TRAN_MSG": "true", "PGROUP": "victim-tx", "UNIQ_KEY": "U1"}
REFUSED = {1, 16}
SECRET = b"for the owner's eyes"


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture(params=KINDS)
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path, clock: StandingClock
) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, request.param, now_ms=clock) as broker:
        yield broker


@pytest.fixture
def owner(broker: TestBroker) -> Client:
    return broker.connect(account=OWNER)


@pytest.fixture
def weak(broker: TestBroker) -> Client:
    return broker.connect(account=WEAK)


@pytest.fixture
def chief(broker: TestBroker) -> Client:
    return broker.connect(account=CHIEF)


def position_of(sent: Frame) -> int:
    assert sent.code == 0, sent.remark
    return decode_offset_id(sent.fields["msgId"])[1]


def assert_refused(answer: Frame) -> None:
    assert answer.code in REFUSED, answer
    assert answer.remark is not None
    assert "permission" in answer.remark, answer.remark
    assert SECRET not in answer.body


async def send_half(client: Client, topic: str = "victim", group: str = "victim-tx") -> Frame:
    answer = await client.send(topic, SECRET, HALF | {"PGROUP": group}, sys_flag=4)
    assert answer.code == 0, answer.remark
    return answer


async def end(client: Client, half: Frame, state: int, group: str = "victim-tx") -> Frame:
    header = EndTransaction(
        producer_group=group,
        tran_state_table_offset=int(half.fields["queueOffset"]),
        commit_log_offset=position_of(half),
        commit_or_rollback=state,
        msg_id="U1",
    )
    return await client.call(Code.END_TRANSACTION, header.to_fields())


async def check(broker: TestBroker, clock: StandingClock) -> None:
    clock.ms += 7000
    await broker.broker.clock_moved()


async def pushed_to(client: Client) -> list[Frame]:
    """Return what the broker has sent to a client unasked."""
    await client.call(Code.HEART_BEAT, body=b"{}")
    return client.pushed


# Transactions


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
async def test_a_stranger_ends_no_transaction(owner: Client, weak: Client, state: int) -> None:
    half = await send_half(owner)
    assert_refused(await end(weak, half, state))
    assert (await end(owner, half, COMMIT)).code == 0
    assert [one.body for one in await owner.messages("victim", consumer_group="victim")] == [SECRET]


async def test_no_spelling_of_batch_brings_half_messages_to_groups_of_others(
    broker: TestBroker, weak: Client, chief: Client
) -> None:
    await send_half(chief, "mine")  # makes the topic: from now on there is a quick way
    store = broker.context.store
    before = store.bounds(SystemTopic.TRANSACTION_HALF, 0)
    header = send_header("mine", HALF, sys_flag=4, producer_group="mine")
    long, letters = header.to_fields(), header.to_letters()
    body = encode_batch([BatchEntry(0, b"one", b"")])
    for truth in ("true", "True", "TRUE", "1", "t", ""):
        for code, fields in (
            (Code.SEND_MESSAGE, long | {"batch": truth}),
            (Code.SEND_MESSAGE_V2, letters | {"m": truth}),
            (Code.SEND_BATCH_MESSAGE, letters | {"m": truth}),
        ):
            answer = await weak.call(code, fields, body)
            assert store.bounds(SystemTopic.TRANSACTION_HALF, 0) == before, (code, truth)
            if truth.lower() == "true":
                assert answer.code == Response.MESSAGE_ILLEGAL, answer
            else:
                assert_refused(answer)
            plain = fields | {"properties": "", "sysFlag": "0", "i": "", "f": "0"}
            assert (await weak.call(code, plain, body)).code == 0
            bodies = [one.body for one in await chief.all_messages("mine")]
            assert (bodies[-1] == b"one") is (truth.lower() == "true"), "a batch, as Java reads it"


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    ("group", "offset"), [("mine", 0), ("mine", 7), ("victim-tx", 7), ("x", 0)]
)
async def test_a_stranger_learns_nothing_of_a_half_message_by_ending_it(
    owner: Client, weak: Client, state: int, group: str, offset: int
) -> None:
    """Rights come first: neither its group nor its place is said to be wrong."""
    half = await send_half(owner)
    header = EndTransaction(
        producer_group=group,
        tran_state_table_offset=int(half.fields["queueOffset"]) + offset,
        commit_log_offset=position_of(half),
        commit_or_rollback=state,
        msg_id="U1",
    ).to_fields()
    for topic in ({}, {"topic": "mine"}):
        assert_refused(await weak.call(Code.END_TRANSACTION, header | topic))
    assert (await end(owner, half, COMMIT)).code == 0


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
async def test_ends_that_are_refused_leave_a_half_message_at_hand(
    broker: TestBroker, owner: Client, weak: Client, state: int
) -> None:
    """Else a stranger, who guesses positions, has the log read for the ends of everybody."""
    await send_half(owner)  # makes the topic, the long way
    half = await send_half(owner)
    assert_refused(await end(weak, half, state))
    assert (await end(owner, half, state, "victim")).code != 0
    fields = dict(half.fields) | {"queueOffset": "7"}
    assert (await end(owner, replace(half, fields=fields), state)).code != 0
    recent = broker.context.recent_halves
    assert recent.find(position_of(half)) is not None
    assert (await end(owner, half, state)).code == 0
    assert recent.find(position_of(half)) is None


async def test_an_end_that_changes_nothing_is_no_success(owner: Client) -> None:
    half = await send_half(owner)
    assert (await end(owner, half, ROLLBACK)).code == 0
    answer = await end(owner, half, COMMIT)
    assert (answer.code, answer.fields) == (1, {})


async def test_an_end_needs_the_group_as_well_as_the_topic(chief: Client, weak: Client) -> None:
    """The half message is for the user's own topic, but somebody else's group made it."""
    assert_refused(await weak.send("mine", SECRET, HALF, sys_flag=4))
    half = await chief.send("mine", SECRET, HALF, sys_flag=4)
    for state in (COMMIT, ROLLBACK):
        assert_refused(await end(weak, half, state))
        assert_refused(await end(weak, half, state, "mine"))
    assert (await end(chief, half, COMMIT)).code == 0


async def test_a_member_of_somebody_elses_producer_group_is_refused_and_asked_nothing(
    broker: TestBroker, owner: Client, weak: Client, clock: StandingClock
) -> None:
    assert_refused(await weak.heartbeat("w", producers=("victim-tx",)))
    assert (await owner.heartbeat("o", producers=("victim-tx",))).code == 0
    await send_half(owner)
    await check(broker, clock)
    assert await pushed_to(weak) == []
    (asked,) = await pushed_to(owner)
    assert (asked.code, SECRET in asked.body) == (Code.CHECK_TRANSACTION_STATE, True)


async def test_a_group_that_no_permission_names_is_asked_for_topics_that_its_member_may_use(
    broker: TestBroker, owner: Client, weak: Client, clock: StandingClock
) -> None:
    """Both may be members; each is asked about messages for its own topic."""
    for client in (owner, weak):
        assert (await client.heartbeat(str(client.account), producers=("anyone's",))).code == 0
    half = await send_half(owner, group="anyone's")
    await send_half(weak, topic="mine", group="anyone's")
    await check(broker, clock)
    for client, topic in ((owner, b"victim"), (weak, b"mine")):
        (asked,) = await pushed_to(client)
        assert topic in asked.body
    assert_refused(await end(weak, half, ROLLBACK, "anyone's"))


async def test_rights_that_were_taken_away_count_when_a_producer_is_asked(
    tmp_path: Path, clock: StandingClock, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_guarded_broker(tmp_path, "4.x", now_ms=clock) as broker:
        owner = broker.connect(account=OWNER)
        assert (await owner.heartbeat("o", producers=("victim-tx",))).code == 0
        await send_half(owner)
        changed = ACCOUNTS.replace("topicPerms: [victim=PUB|SUB]", "topicPerms: [victim=SUB]")
        (tmp_path / "conf" / "plain_acl.yml").write_text(changed)
        await trio.sleep(30)
        await check(broker, clock)
        assert await pushed_to(owner) == []


async def test_a_client_id_in_use_is_its_accounts(owner: Client, weak: Client) -> None:
    """Replies go to the client whose id their requests had."""
    assert (await owner.heartbeat("10.0.0.1@7", producers=("victim-tx",))).code == 0
    answer = await weak.heartbeat("10.0.0.1@7", producers=("mine",))
    assert answer.code == 16
    assert answer.remark is not None
    assert "10.0.0.1@7" in answer.remark
    assert (await weak.heartbeat("10.0.0.2@7", producers=("mine",))).code == 0


async def test_a_client_id_in_use_keeps_no_consumers_of_another_account_out(
    broker: TestBroker, owner: Client, weak: Client
) -> None:
    """Containers have the same addresses and process numbers."""
    assert (await owner.heartbeat("172.17.0.2@1", producers=("victim-tx",))).code == 0
    consumers, inner = {"mine": {"mine": "*"}}, "CLIENT_INNER_PRODUCER"
    answer = await weak.heartbeat("172.17.0.2@1", consumers=consumers, producers=(inner,))
    assert answer.code == 0, answer.remark
    clients = broker.context.clients
    clients.closed(clients.sessions_of("mine")[0])
    answer = await weak.heartbeat("172.17.0.2@1", consumers=consumers, producers=(inner, "mine"))
    assert answer.code == 16
    assert len(clients.sessions_of("mine")) == 1
    assert list(clients.producers("mine")) == []


async def test_inner_producers_take_nobodys_client_id(
    broker: TestBroker, owner: Client, weak: Client
) -> None:
    """They need no right: an account without any would shut others out, and get their replies."""
    bare = broker.connect(account=BARE)
    for inner in ("CLIENT_INNER_PRODUCER", "CLIENT_INNER_PRODUCER2", "_INNER_TRACE_PRODUCER-x"):
        assert (await bare.heartbeat("asker", producers=(inner,))).code == 0
    assert "not found" in ((await reply_to(weak, "asker")).remark or "")
    producers = ("CLIENT_INNER_PRODUCER", "free")
    consumers = {"victim": {"victim": "*"}}
    answer = await owner.heartbeat("asker", consumers=consumers, producers=producers)
    assert answer.code == 0, answer.remark
    assert (await bare.heartbeat("asker", producers=("CLIENT_INNER_PRODUCER",))).code == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reply_to, weak, "asker")
        await owner.peer.send((await owner.peer.receive()).reply())


async def test_an_asker_without_rights_gets_no_replies_by_its_inner_producer(
    broker: TestBroker, owner: Client, weak: Client
) -> None:
    producers = ("CLIENT_INNER_PRODUCER", "victim-tx")
    assert (await owner.heartbeat("asker", producers=producers)).code == 0
    assert (await weak.heartbeat("w", producers=("mine",))).code == 0
    clients = broker.context.clients
    ((member,), (without,)) = map(clients.producers, ("victim-tx", "mine"))
    member.sender = without.sender
    chief = broker.connect(account=CHIEF)
    assert "not found" in ((await reply_to(chief, "asker")).remark or "")


async def test_consumers_without_a_topic_to_send_to_keep_their_inner_producers(
    tmp_path: Path,
) -> None:
    text = ACCOUNTS.replace("mine=PUB|SUB", "mine=SUB")
    async with open_guarded_broker(tmp_path, "4.x", accounts=text) as broker:
        weak = broker.connect(account=WEAK)
        inner = ("CLIENT_INNER_PRODUCER", "_INNER_TRACE_PRODUCER-mine-CONSUME-1")
        answer = await weak.heartbeat("w", consumers={"mine": {"mine": "*"}}, producers=inner)
        assert answer.code == 0
        assert_refused(await weak.heartbeat("w", producers=("another",)))


async def test_a_message_is_checked_again_only_for_those_who_may_end_it(
    broker: TestBroker, owner: Client, weak: Client, chief: Client, clock: StandingClock
) -> None:
    await send_half(owner)
    for _ in range(20):
        await check(broker, clock)
    aside = SystemTopic.TRANSACTION_CHECK_MAX_TIME
    (kept,) = await chief.messages(aside)
    assert_refused(await resume(weak, kept.offset_id))
    forged = await weak.send("mine", b"x", {"REAL_TOPIC": "victim", "REAL_QID": "0"})
    answer = await resume(weak, forged.fields["msgId"])
    assert answer.code in REFUSED
    assert (await resume(owner, kept.offset_id)).code == 0


async def resume(client: Client, message_id: str, topic: str | None = None) -> Frame:
    header = ResumeCheckHalfMessage(msg_id=message_id, topic=topic)
    return await client.call(Code.RESUME_CHECK_HALF_MESSAGE, header.to_fields())


@pytest.mark.parametrize("kind", KINDS)
async def test_who_may_only_read_a_topic_has_none_of_its_transactions_checked_again(
    tmp_path: Path, kind: str, clock: StandingClock
) -> None:
    """Neither one that has ended, nor one that was put aside, of a group that is open to all."""
    accounts = ACCOUNTS.replace("[mine=PUB|SUB]\n", "[mine=PUB|SUB, victim=SUB]\n", 1)
    async with open_guarded_broker(tmp_path, kind, accounts=accounts, now_ms=clock) as broker:
        chief, owner, weak = (broker.connect(account=one) for one in (CHIEF, OWNER, WEAK))
        if kind == "5.x":
            entries = (
                PolicyEntryInfo("Topic:mine", ("Pub", "Sub", "Update"), None, "Allow"),
                PolicyEntryInfo("Topic:victim", ("Sub", "Get"), None, "Allow"),
                PolicyEntryInfo("Group:mine", ("Sub",), None, "Allow"),
            )
            subject = f"User:{WEAK[0]}"
            body = AclInfo(subject, (PolicyInfo("Custom", entries),)).encode()
            assert (await chief.call(Code.AUTH_UPDATE_ACL, {"subject": subject}, body)).code == 0
        ended = await send_half(owner, group="open-tx")
        assert (await end(owner, ended, COMMIT, "open-tx")).code == 0
        await send_half(owner, group="open-tx")
        for _ in range(20):
            await check(broker, clock)
        (kept,) = await chief.messages(SystemTopic.TRANSACTION_CHECK_MAX_TIME)
        assert await weak.messages("victim", consumer_group="mine"), "may read"
        before = broker.context.store.max_position
        for message_id in (ended.fields["msgId"], kept.offset_id):
            for topic in (None, "mine", "victim"):
                assert_refused(await resume(weak, message_id, topic))
        assert broker.context.store.max_position == before


async def test_only_what_was_put_aside_is_checked_again(
    broker: TestBroker, owner: Client, chief: Client, clock: StandingClock
) -> None:
    """Apache's brokers take any message: a transaction that has ended would end once more."""
    halves = [await send_half(owner) for _ in range(4)]
    for half, state in zip(halves, (COMMIT, ROLLBACK), strict=False):
        assert (await end(owner, half, state)).code == 0
    (sent,) = await owner.messages("victim", consumer_group="victim")
    names = [half.fields["msgId"] for half in halves[:3]]
    before = broker.context.store.max_position
    for message_id in (*names, sent.offset_id):
        for client in (owner, chief):
            answer = await resume(client, message_id)
            assert answer.code == Response.SYSTEM_ERROR
            assert "put aside" in (answer.remark or "") or "No half" in (answer.remark or "")
    assert broker.context.store.max_position == before
    for _ in range(20):
        await check(broker, clock)
    aside = SystemTopic.TRANSACTION_CHECK_MAX_TIME
    kept = [one.offset_id for one in await chief.messages(aside)]
    assert len(kept) == 2
    before = broker.context.store.max_position
    answer = await resume(chief, kept[0], "mine")
    assert (answer.code, "not one for mine" in (answer.remark or "")) == (1, True), answer
    assert broker.context.store.max_position == before
    assert (await resume(owner, kept[0], "victim")).code == 0
    assert (await resume(chief, kept[1], aside)).code == 0, "as tools name it that found it there"


# Messages that are found


async def foreign_messages(owner: Client, chief: Client) -> dict[str, int]:
    """Return positions of messages of the owner's, of every kind that there is in a log."""
    found = {"plain": position_of(await owner.send("victim", SECRET))}
    found["half"] = position_of(await send_half(owner))
    found["delayed"] = position_of(await owner.send("victim", SECRET, {"DELAY": "3"}))
    timer = {"TIMER_DELAY_SEC": "60"}
    found["timed"] = position_of(await owner.send("victim", SECRET, timer))
    retry = send_header("%RETRY%victim", producer_group="victim").to_letters()
    found["retry"] = position_of(await owner.call(Code.SEND_MESSAGE_V2, retry, SECRET))
    dead = send_header("%RETRY%victim", producer_group="victim", reconsume_times=99).to_letters()
    found["dead"] = position_of(await owner.call(Code.SEND_MESSAGE_V2, dead, SECRET))
    back = ConsumerSendMsgBack(offset=found["plain"], group="victim", delay_level=3)
    assert (await owner.call(Code.CONSUMER_SEND_MSG_BACK, back.to_fields())).code == 0
    (waiting,) = await chief.messages(SystemTopic.SCHEDULE, 2, 1)
    found["sent back"] = waiting.log_position
    return found


async def view(client: Client, position: int, **changes: str) -> Frame:
    fields = ViewMessage(position).to_fields() | changes
    return await client.call(Code.VIEW_MESSAGE_BY_ID, fields)


async def test_messages_are_shown_to_those_who_may_read_their_topic(
    owner: Client, weak: Client, chief: Client
) -> None:
    for kind, position in (await foreign_messages(owner, chief)).items():
        for changes in ({}, {"topic": "mine"}, {"topic": ""}):
            assert_refused(await view(weak, position, **changes))
        assert SECRET in (await view(chief, position)).body
        assert SECRET in (await view(owner, position)).body, kind
    own = position_of(await weak.send("mine", b"own"))
    assert b"own" in (await view(weak, own)).body


async def test_messages_are_sent_back_by_those_who_may_read_their_topic(
    broker: TestBroker, owner: Client, weak: Client, chief: Client
) -> None:
    positions = await foreign_messages(owner, chief)
    before = broker.context.store.statistics().max_position
    for position in positions.values():
        header = ConsumerSendMsgBack(
            offset=position, group="mine", delay_level=-1, origin_topic="mine"
        )
        assert_refused(await weak.call(Code.CONSUMER_SEND_MSG_BACK, header.to_fields()))
    assert broker.context.store.statistics().max_position == before
    tables = broker.context.store.tables
    assert "mine" not in tables.groups.names, "made for nothing"
    assert "%RETRY%mine" not in tables.topics.names
    own = ConsumerSendMsgBack(
        offset=position_of(await weak.send("mine")), group="mine", delay_level=-1
    )
    assert (await weak.call(Code.CONSUMER_SEND_MSG_BACK, own.to_fields())).code == 0


async def test_messages_are_handed_to_consumers_of_those_who_may_read_their_topic(
    owner: Client, weak: Client, chief: Client
) -> None:
    positions = await foreign_messages(owner, chief)
    assert (await weak.heartbeat("w", consumers={"mine": {"mine": "*"}})).code == 0
    for position in positions.values():
        for topic in (None, "mine"):
            header = ConsumeMessageDirectly(
                consumer_group="mine",
                client_id="w",
                msg_id=f"7F00000100002A9F{position:016X}",
                topic=topic,
            )
            assert_refused(await weak.call(Code.CONSUME_MESSAGE_DIRECTLY, header.to_fields()))
    assert {frame.code for frame in await pushed_to(weak)} <= {Code.NOTIFY_CONSUMER_IDS_CHANGED}


async def hand_out(chief: Client, position: int) -> Frame:
    """Hand a message to the member ``w`` of the group ``mine``."""
    header = ConsumeMessageDirectly(
        consumer_group="mine", client_id="w", msg_id=f"7F00000100002A9F{position:016X}"
    )
    return await chief.call(Code.CONSUME_MESSAGE_DIRECTLY, header.to_fields())


async def test_messages_are_handed_to_consumers_who_may_read_their_topic(
    owner: Client, weak: Client, chief: Client
) -> None:
    """Whoever hands them out: an operator looks at the group, and not at its member's account."""
    assert (await weak.heartbeat("w", consumers={"mine": {"mine": "*"}})).code == 0
    for position in (await foreign_messages(owner, chief)).values():
        answer = await hand_out(chief, position)
        assert "The Consumer <mine> <w> not online" in (answer.remark or ""), answer
    assert {frame.code for frame in await pushed_to(weak)} <= {Code.NOTIFY_CONSUMER_IDS_CHANGED}


async def test_messages_are_handed_to_the_consumer_that_had_its_id_first(
    broker: TestBroker, weak: Client, chief: Client
) -> None:
    """Another account that takes the id gets nothing of what is meant for the first one."""
    member = broker.connect(account=CHIEF)
    for client in (member, weak):
        assert (await client.heartbeat("w", consumers={"mine": {"mine": "*"}})).code == 0
    own = position_of(await weak.send("mine", b"own"))
    answers: list[Frame] = []

    async def hand() -> None:
        answers.append(await hand_out(chief, own))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hand)
            while (asked := await member.peer.receive()).code != Code.CONSUME_MESSAGE_DIRECTLY:
                pass
            await member.peer.send(asked.reply(body=b"done"))
    assert [answer.body for answer in answers] == [b"done"]
    assert {frame.code for frame in await pushed_to(weak)} <= {Code.NOTIFY_CONSUMER_IDS_CHANGED}


async def test_every_kind_of_message_in_a_log_belongs_to_somebody(
    broker: TestBroker, owner: Client, chief: Client
) -> None:
    for kind, position in (await foreign_messages(owner, chief)).items():
        message = broker.context.store.message_at(position)
        assert message is not None
        names = {
            one.name.removeprefix("%RETRY%").removeprefix("%DLQ%")
            for one in touched_by_reading(message)
        }
        assert names == ({"victim", "victim-tx"} if kind == "half" else {"victim"}), kind


# Topics of groups, and of all


@pytest.mark.parametrize("code", [Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE])
@pytest.mark.parametrize(
    "topic",
    [
        "%RETRY%victim",
        "%DLQ%victim",
        SystemTopic.SCHEDULE,
        SystemTopic.TIMER,
        SystemTopic.TRANSACTION_HALF,
        SystemTopic.TRANSACTION_CHECK_MAX_TIME,
        SystemTopic.UNDELIVERED,
    ],
)
async def test_topics_of_groups_and_of_waiting_messages_are_not_read(
    weak: Client, owner: Client, chief: Client, code: int, topic: str
) -> None:
    await foreign_messages(owner, chief)
    header = pull_header(topic, 0, 0, consumer_group="mine")
    assert_refused(await weak.call(code, header.to_fields()))


@pytest.mark.parametrize("group", ["mine", "victim"])
@pytest.mark.parametrize("topic", ["%RETRY%victim", "%DLQ%victim"])
async def test_topics_of_groups_are_not_written(
    broker: TestBroker, weak: Client, topic: str, group: str
) -> None:
    header = send_header(topic, {"REPLY_TO_CLIENT": "x"}, producer_group=group)
    long, letters = header.to_fields(), header.to_letters()
    for code, fields in (
        (Code.SEND_MESSAGE, long),
        (Code.SEND_MESSAGE_V2, letters),
        (Code.SEND_BATCH_MESSAGE, letters | {"m": "true"}),
        (Code.SEND_REPLY_MESSAGE, long),
        (Code.SEND_REPLY_MESSAGE_V2, letters),
        (Code.RECALL_MESSAGE, {"topic": topic, "producerGroup": group, "recallHandle": "x"}),
        # What the other form of the header says does not count.
        (Code.SEND_MESSAGE, long | {"b": "mine", "a": "mine"}),
        (Code.SEND_MESSAGE_V2, letters | {"topic": "mine", "group": "mine"}),
    ):
        assert_refused(await weak.call(code, fields, b"x"))
    assert broker.context.store.statistics().max_position == 0


async def test_rights_to_all_topics_are_none_to_what_waits_of_those_denied(tmp_path: Path) -> None:
    text = ACCOUNTS.replace(
        "topicPerms: [mine=PUB|SUB]",
        "defaultTopicPerm: PUB|SUB\n    topicPerms: [victim=DENY, SELF=SUB]",
    )
    async with open_guarded_broker(tmp_path, "4.x", accounts=text) as broker:
        owner, weak = broker.connect(account=OWNER), broker.connect(account=WEAK)
        await owner.send("victim", SECRET, {"DELAY": "3"})
        for topic in (SystemTopic.SCHEDULE, "%DLQ%victim", "%LQ%0%victim", "victim"):
            header = pull_header(topic, 2, 0, consumer_group="mine")
            assert_refused(await weak.call(Code.PULL_MESSAGE, header.to_fields()))


OF_MANY = (*sorted(WAITING_TOPICS), "DefaultCluster_REPLY_TOPIC")
"""Topics in which messages of all others are."""


@pytest.mark.parametrize("kind", KINDS)
async def test_topics_of_many_are_read_with_rights_that_name_them(
    tmp_path: Path, kind: str
) -> None:
    """Rights to all topics are not enough, and neither are beginnings of names."""
    names = "".join(f", {topic}=SUB" for topic in OF_MANY)
    text = ACCOUNTS.replace(
        "topicPerms: [mine=PUB|SUB]", "defaultTopicPerm: PUB|SUB\n    topicPerms: [mine=SUB]"
    ).replace("topicPerms: [victim=PUB|SUB]", f"topicPerms: [victim=PUB|SUB{names}]")
    async with open_guarded_broker(tmp_path, kind, accounts=text) as broker:
        chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
        weak = broker.connect(account=WEAK)
        reply = await chief.send("DefaultCluster_REPLY_TOPIC", SECRET)
        if kind == "5.x":
            for topic in OF_MANY:
                beginnings = {topic[:length] for length in (0, 1, 5, len(topic) - 1, len(topic))}
                for name in ("*", *(f"Topic:{one}*" for one in sorted(beginnings))):
                    await allow(chief, WEAK[0], name)
                await allow(chief, OWNER[0], f"Topic:{topic}")
        for topic in OF_MANY:
            header = pull_header(topic, 0, 0, consumer_group="mine").to_fields()
            for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
                assert_refused(await weak.call(code, header))
            header = pull_header(topic, 0, 0, consumer_group="victim").to_fields()
            answer = await owner.call(Code.PULL_MESSAGE, header)
            assert answer.code not in REFUSED, answer
        asked = {"topic": "DefaultCluster_REPLY_TOPIC", "queueId": "0", "group": "mine"}
        for code in (
            Code.GET_MAX_OFFSET,
            Code.GET_MIN_OFFSET,
            Code.GET_TOPIC_STATS_INFO,
            Code.QUERY_TOPIC_CONSUME_BY_WHO,
            Code.GET_TOPIC_CONFIG,
        ):
            assert_refused(await weak.call(code, asked))
            answer = await owner.call(code, asked)
            assert answer.code not in REFUSED, (code, answer)
        seen = ViewMessage(position_of(reply)).to_fields() | {"topic": "mine"}
        assert_refused(await weak.call(Code.VIEW_MESSAGE_BY_ID, seen))
        assert (await weak.send("DefaultCluster_REPLY_TOPIC")).code == 0


async def allow(chief: Client, user: str, resource: str) -> None:
    entry = PolicyEntryInfo(resource, ("All",), None, "Allow")
    body = AclInfo(f"User:{user}", (PolicyInfo("Custom", (entry,)),)).encode()
    answer = await chief.call(Code.AUTH_CREATE_ACL, {"subject": f"User:{user}"}, body)
    assert answer.code == 0, answer.remark


# Groups, timers


async def test_a_clone_without_a_topic_needs_each_of_the_topics(
    broker: TestBroker, owner: Client, weak: Client, chief: Client
) -> None:
    await chief.send("victim")
    offsets = broker.context.store.tables.consumer_offsets
    offsets.put("mine", "victim", 0, 7)
    offsets.put("victim", "victim", 0, 9)
    for source, target, topic in (
        ("victim", "mine", None),
        ("victim", "mine", "mine"),
        ("mine", "victim", None),
        ("mine", "mine", None),
    ):
        header = CloneGroupOffset(src_group=source, dest_group=target, topic=topic, offline=True)
        answer = await weak.call(Code.CLONE_GROUP_OFFSET, header.to_fields())
        assert_refused(answer)
    assert offsets.get("mine", "victim", 0) == 7


async def test_locks_of_somebody_elses_queues_are_not_taken(weak: Client, owner: Client) -> None:
    queue = MessageQueue("%RETRY%victim", "broker-a", 0)
    body = LockBatch("mine", "w", (queue,)).encode()
    answer = await weak.call(Code.LOCK_BATCH_MQ, body=body)
    if answer.code == 0:  # a lock of the user's own group, which nobody else looks at
        body = LockBatch("victim", "o", (queue,)).encode()
        assert b"%RETRY%victim" in (await owner.call(Code.LOCK_BATCH_MQ, body=body)).body


async def has_lock(client: Client, client_id: str, **fields: str) -> bool:
    queue = MessageQueue("mine", "broker-a", 0)
    body = LockBatch("mine", client_id, (queue,)).encode()
    answer = await client.call(Code.LOCK_BATCH_MQ, fields, body)
    assert answer.code == 0, answer.remark
    return queue in LockBatchResult.decode(answer.body).lock_ok_mq_set


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [{}, {"lanemqBoundLock": "true"}])
async def test_locks_are_those_of_an_account(
    tmp_path: Path, kind: str, bound: dict[str, str]
) -> None:
    """Another one, with rights to the same group and topics, neither takes nor releases them by the
    client id of their holder; processes of one account share the id's, as ever."""
    text = ACCOUNTS.replace("victim=PUB|SUB", "victim=PUB|SUB, mine=PUB|SUB", 2)
    async with open_guarded_broker(tmp_path, kind, accounts=text) as broker:
        chief = broker.connect(account=CHIEF)
        if kind == "5.x":
            for resource in ("Topic:mine", "Group:mine"):
                await allow(chief, OWNER[0], resource)
        holder, again = (broker.connect(account=WEAK) for _ in range(2))
        other = broker.connect(account=OWNER)
        body = LockBatch("mine", "w", (MessageQueue("mine", "broker-a", 0),)).encode()
        assert await has_lock(holder, "w", **bound)
        for _ in range(2):
            assert not await has_lock(other, "w")
            assert not await has_lock(other, "w", lanemqBoundLock="true")
            assert (await other.call(Code.UNLOCK_BATCH_MQ, body=body)).code == 0
            assert not await has_lock(other, "o")
            assert await has_lock(holder, "w", **bound), "renewed"
        assert not await has_lock(again, "w2")
        assert await has_lock(again, "w"), "the same client over another connection"
        assert (await holder.call(Code.UNLOCK_BATCH_MQ, body=body)).code == 0
        assert await has_lock(other, "w")
        assert (await chief.call(Code.UNLOCK_BATCH_MQ, body=body)).code == 0, "an administrator"
        assert await has_lock(holder, "w")


async def test_a_timer_is_taken_back_by_messages_of_its_own_topic_alone(
    broker: TestBroker, owner: Client, weak: Client, clock: StandingClock
) -> None:
    at_ms = str(clock.ms + 60_000)
    timed = {"TIMER_DELIVER_MS": at_ms, "UNIQ_KEY": "victims"}
    assert (await owner.send("victim", SECRET, timed)).code == 0
    forged = {"TIMER_DELIVER_MS": at_ms, "UNIQ_KEY": "x", "TIMER_DEL_UNIQKEY": "victim+victims"}
    answer = await weak.send("mine", b"0", forged)
    assert answer.code == 13
    half = await weak.send(
        "mine", b"0", forged | {"TRAN_MSG": "true", "PGROUP": "mine"}, sys_flag=4
    )
    if half.code == 0:
        await end(weak, half, COMMIT, "mine")
    clock.ms += 61_000
    await broker.broker.clock_moved()
    found = await owner.messages("victim", consumer_group="victim")
    assert [message.body for message in found] == [SECRET]


async def test_replies_go_to_the_topic_for_replies_alone(broker: TestBroker, weak: Client) -> None:
    """A topic may be called as if it were for replies, and be somebody's."""
    for topic, is_free in (("DefaultCluster_REPLY_TOPIC", True), ("victim_REPLY_TOPIC", False)):
        header = send_header(topic, {"REPLY_TO_CLIENT": "nobody"})
        answer = await weak.call(Code.SEND_REPLY_MESSAGE_V2, header.to_letters(), b"x")
        assert (answer.code == 1 and "not found" in (answer.remark or "")) is is_free, answer
    assert broker.context.topics.get("victim_REPLY_TOPIC") is None


async def reply_to(client: Client, asker: str, code: Code = Code.SEND_REPLY_MESSAGE_V2) -> Frame:
    """Send a reply to a client, and take it there; returns the answer to who has replied."""
    header = send_header("DefaultCluster_REPLY_TOPIC", {"REPLY_TO_CLIENT": asker})
    fields = header.to_fields() if code == Code.SEND_REPLY_MESSAGE else header.to_letters()
    return await client.call(code, fields, b"x")


@pytest.mark.parametrize("code", [Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2])
async def test_a_reply_needs_the_right_to_the_groups_of_its_client(
    broker: TestBroker, owner: Client, weak: Client, code: Code
) -> None:
    """The group that a reply names as its sender's gives no right."""
    assert (await owner.heartbeat("asker", producers=("free", "victim-tx"))).code == 0
    assert_refused(await reply_to(weak, "asker", code))
    assert await pushed_to(owner) == []
    assert await owner.all_messages("DefaultCluster_REPLY_TOPIC") == []
    async with trio.open_nursery() as nursery:
        answers: list[Frame] = []

        async def answer(replier: Client) -> None:
            answers.append(await reply_to(replier, "asker", code))

        nursery.start_soon(answer, broker.connect(account=OWNER))
        await owner.peer.send((await owner.peer.receive()).reply())
    assert [one.code for one in answers] == [0]


async def test_who_only_reads_may_reply_to_clients_of_groups_that_nobody_has(
    broker: TestBroker, owner: Client
) -> None:
    """CLIENT_INNER_PRODUCER, which every Java client has, is nobody's."""
    assert (await owner.heartbeat("asker", producers=("free", "CLIENT_INNER_PRODUCER"))).code == 0
    async with trio.open_nursery() as nursery:
        answers: list[Frame] = []

        async def answer(replier: Client) -> None:
            answers.append(await reply_to(replier, "asker"))

        nursery.start_soon(answer, broker.connect(account=BARE))
        await owner.peer.send((await owner.peer.receive()).reply())
    assert [one.code for one in answers] == [0]


@pytest.mark.parametrize("kind", KINDS)
async def test_light_queues_are_written_by_those_who_may_send_to_them(
    tmp_path: Path, kind: str
) -> None:
    async with open_guarded_broker(
        tmp_path, kind, enable_lmq=True, enable_multi_dispatch=True
    ) as broker:
        weak, chief = broker.connect(account=WEAK), broker.connect(account=CHIEF)
        assert_refused(await weak.send("mine", b"x", {"INNER_MULTI_DISPATCH": "%LMQ%victim"}))
        assert (await weak.send("mine", b"x", {"INNER_MULTI_DISPATCH": "other"})).code == 0
        answer = await chief.send("mine", b"x", {"INNER_MULTI_DISPATCH": "%LMQ%victim"})
        assert answer.code == 0
        store = broker.context.store
        assert store.bounds("%LMQ%victim", 0) == (0, 1)

        bare = broker.connect(account=BARE)
        header = send_header(
            "DefaultCluster_REPLY_TOPIC",
            {"REPLY_TO_CLIENT": "nobody", "INNER_MULTI_DISPATCH": "%LMQ%victim"},
        )
        replies = {
            Code.SEND_REPLY_MESSAGE: header.to_fields(),
            Code.SEND_REPLY_MESSAGE_V2: header.to_letters(),
        }
        for code, fields in replies.items():
            assert_refused(await bare.call(code, fields, b"x"))
        # The messages of a batch go to the batch's own queue alone, whatever they say.
        properties = b"INNER_MULTI_DISPATCH\1%LMQ%victim\2INNER_MULTI_QUEUE_OFFSET\0010\2"
        batch = encode_batch([BatchEntry(0, b"x", properties)])
        letters = send_header("mine", batch=True).to_letters()
        assert (await weak.call(Code.SEND_BATCH_MESSAGE, letters, batch)).code == 0
        # Who may read a message sends it to the dead letters, and nowhere else.
        assert (await weak.heartbeat("w", consumers={"mine": {"mine": "*"}})).code == 0
        back = ConsumerSendMsgBack(
            offset=position_of(answer), group="mine", delay_level=-1, origin_topic="mine"
        )
        assert (await weak.call(Code.CONSUMER_SEND_MSG_BACK, back.to_fields())).code == 0
        assert store.bounds("%DLQ%mine", 0) == (0, 1)
        assert store.bounds("%LMQ%victim", 0) == (0, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_on", [True, False])
async def test_the_light_queues_of_the_store_are_those_that_are_checked(
    tmp_path: Path, kind: str, is_on: bool
) -> None:
    """Names that the store passes over take no place among the 64 that are looked at, nor do they
    need a right."""
    names = ["%LMQ%a/b"] * 64 + ["%LMQ%victim"]
    async with open_guarded_broker(
        tmp_path, kind, enable_lmq=is_on, enable_multi_dispatch=is_on
    ) as broker:
        weak, chief = broker.connect(account=WEAK), broker.connect(account=CHIEF)
        asked = {"INNER_MULTI_DISPATCH": ",".join(names)}
        for more in ({}, {"DELAY": "1"}, HALF | {"PGROUP": "own"}):
            assert_refused(await weak.send("mine", b"x", asked | more))
        assert (await weak.send("mine", b"x", {"INNER_MULTI_DISPATCH": names[0]})).code == 0
        assert broker.context.store.bounds("%LMQ%victim", 0) == (0, 0)
        assert (await chief.send("mine", b"x", asked)).code == 0
        assert broker.context.store.bounds("%LMQ%victim", 0) == (0, int(is_on))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2])
async def test_messages_of_others_are_given_back_by_sending_them(
    tmp_path: Path, kind: str, code: Code
) -> None:
    """Java's consumers do so where request 36 fails, with all properties of the message: a half
    message of its producer, or one for its light queues, is not what they send."""
    async with open_guarded_broker(
        tmp_path, kind, enable_lmq=True, enable_multi_dispatch=True
    ) as broker:
        weak, store = broker.connect(account=WEAK), broker.context.store
        marks = HALF | {"RETRY_TOPIC": "mine"}
        lights = {"INNER_MULTI_DISPATCH": "%LMQ%victim", "INNER_MULTI_QUEUE_OFFSET": "7"}

        async def send(
            properties: dict[str, str], topic: str = "%RETRY%mine", **changes: int
        ) -> Frame:
            header = send_header(topic, properties, producer_group="mine", **changes)
            fields = header.to_letters() if code is Code.SEND_MESSAGE_V2 else header.to_fields()
            return await weak.call(code, fields, b"x")

        for properties in (marks, lights, marks | lights):
            for delay in ({}, {"DELAY": "3"}):
                again = await send(properties | delay, reconsume_times=1)
                assert again.code == 0, again.remark
            dead = await send(properties | {"DELAY": "3"}, reconsume_times=99)
            assert dead.code == 0, dead.remark
        assert (await send(marks | {"DELAY": "3"}, "mine", reconsume_times=1)).code == 0
        assert store.bounds("%DLQ%mine", 0) == (0, 3)
        assert store.bounds("%LMQ%victim", 0) == (0, 0)
        assert store.bounds(SystemTopic.TRANSACTION_HALF, 0) == (0, 0)
        # What is stored as a half message, or for light queues, needs the rights to these.
        assert_refused(await send(marks))
        assert_refused(await send(marks, "mine", reconsume_times=1))
        assert_refused(await send(lights, "mine", reconsume_times=1))
        assert_refused(await send(lights, "%DLQ%mine", reconsume_times=1))


@pytest.mark.parametrize("kind", KINDS)
async def test_who_reads_a_light_queue_reads_and_sends_back_its_messages(
    tmp_path: Path, kind: str
) -> None:
    text = ACCOUNTS.replace("[mine=PUB|SUB]", "[mine=PUB|SUB, '%LMQ%mine=SUB']", 1)
    async with open_guarded_broker(
        tmp_path, kind, accounts=text, enable_lmq=True, enable_multi_dispatch=True
    ) as broker:
        weak, chief = broker.connect(account=WEAK), broker.connect(account=CHIEF)
        if kind == "5.x":
            await allow(chief, WEAK[0], "Topic:%LMQ%mine")
        broker.context.topics.put(TopicConfig("%LMQ%mine", 1, 1))
        names = {"INNER_MULTI_DISPATCH": "%LMQ%other,%LMQ%mine"}
        light = position_of(await chief.send("victim", b"light", names))
        named = position_of(await chief.send("victim", b"x", {"INNER_MULTI_DISPATCH": "%LMQ%y"}))
        # What a sender says of offsets is no place in a light queue.
        delayed = position_of(await chief.send("victim", b"x", names | {"DELAY": "3"}))
        (found,) = await weak.messages("%LMQ%mine", consumer_group="mine")
        assert found.log_position == light
        assert b"light" in (await view(weak, light)).body
        back = ConsumerSendMsgBack(offset=light, group="mine", delay_level=1)
        assert (await weak.call(Code.CONSUMER_SEND_MSG_BACK, back.to_fields())).code == 0
        for position in (named, delayed):
            assert_refused(await view(weak, position))
            back = ConsumerSendMsgBack(offset=position, group="mine", delay_level=1)
            assert_refused(await weak.call(Code.CONSUMER_SEND_MSG_BACK, back.to_fields()))


@pytest.mark.parametrize(
    "field", ["lanemqAccount", "lanemqBornHost", "lanemqHops", "lanemqOriginId"]
)
async def test_what_servers_say_of_their_clients_is_not_believed_of_clients(
    owner: Client, chief: Client, field: str
) -> None:
    fields = send_header("victim").to_letters() | {field: "0a0000010000007b"}
    answer = await owner.call(Code.SEND_MESSAGE_V2, fields, b"x")
    assert_refused(answer)
    assert field in (answer.remark or "")
    assert (await chief.call(Code.SEND_MESSAGE_V2, fields, b"x")).code == 0


@pytest.mark.parametrize("field", sorted(SERVERS_FIELDS))
async def test_requests_that_name_no_object_are_no_place_for_what_servers_say(
    broker: TestBroker, field: str
) -> None:
    bare = broker.connect(account=BARE)
    reply = send_header("DefaultCluster_REPLY_TOPIC", {"REPLY_TO_CLIENT": "nobody"})
    for code, fields in (
        (Code.SEND_REPLY_MESSAGE, reply.to_fields()),
        (Code.SEND_REPLY_MESSAGE_V2, reply.to_letters()),
        (Code.VIEW_MESSAGE_BY_ID, ViewMessage(0).to_fields()),
        (Code.END_TRANSACTION, EndTransaction("g", 0, 0, COMMIT, msg_id="x").to_fields()),
        (Code.HEART_BEAT, {}),
    ):
        body = HeartbeatData("s", (), ()).encode()
        answer = await bare.call(code, fields | {field: "0a0000010000007b"}, body)
        assert_refused(answer)
        assert field in (answer.remark or ""), answer


async def test_a_name_that_need_not_be_signed_gives_no_rights(tmp_path: Path) -> None:
    """Codes that are open to all are not open to whoever says that he is somebody."""
    async with open_guarded_broker(tmp_path, "5.x", authentication_whitelist="33,28") as broker:
        owner = broker.connect(account=OWNER)
        position = position_of(await owner.send("victim", SECRET))
        nobody = broker.connect()
        for name in (CHIEF[0], OWNER[0], ""):
            answer = await view(nobody, position, AccessKey=name, Signature="x")
            assert (answer.code, answer.body) == (16, b"")
        assert SECRET in (await view(owner, position)).body


async def test_a_name_that_need_not_be_signed_is_asked_for_no_transactions(
    tmp_path: Path, clock: StandingClock
) -> None:
    async with open_guarded_broker(
        tmp_path, "5.x", now_ms=clock, authentication_whitelist="34", authorization_whitelist="34"
    ) as broker:
        strangers = [broker.connect() for _ in range(3)]
        data = HeartbeatData("s", (ProducerData("victim-tx"),), ()).encode()
        for nobody, name in zip(strangers, (CHIEF[0], OWNER[0], ""), strict=True):
            fields = {"AccessKey": name, "Signature": "x"}
            assert (await nobody.call(Code.HEART_BEAT, fields, data)).code == 0
        owner = broker.connect(account=OWNER)
        await send_half(owner)
        await check(broker, clock)
        assert [await pushed_to(nobody) for nobody in strangers] == [[], [], []]
        assert (await owner.heartbeat("o", producers=("victim-tx",))).code == 0
        await check(broker, clock)
        assert [SECRET in frame.body for frame in await pushed_to(owner)] == [True]


@pytest.mark.parametrize("shadow", ["%STAGE%", "%STAGE%|fast|", "%BROKER_STAGE%"])
async def test_stage_records_are_their_groups(
    owner: Client, weak: Client, chief: Client, shadow: str
) -> None:
    await chief.send("victim")
    await chief.send("mine")
    fields = {"queueId": "0", "commitOffset": "7"}
    for client, topic, group in ((owner, "victim", "victim"), (weak, "mine", "mine")):
        named = fields | {"topic": topic, "consumerGroup": shadow + group}
        assert (await client.call(Code.UPDATE_CONSUMER_OFFSET, named)).code == 0
        assert (await client.call(Code.QUERY_CONSUMER_OFFSET, named)).fields["offset"] == "7"
    foreign = fields | {"topic": "mine", "consumerGroup": f"{shadow}victim"}
    assert_refused(await weak.call(Code.UPDATE_CONSUMER_OFFSET, foreign))


async def test_a_right_to_all_groups_is_none_to_stage_records_of_one_denied(
    tmp_path: Path,
) -> None:
    text = ACCOUNTS.replace(
        "groupPerms: [mine=PUB|SUB]", "defaultGroupPerm: SUB\n    groupPerms: [victim=DENY]"
    )
    async with open_guarded_broker(tmp_path, "4.x", accounts=text) as broker:
        weak = broker.connect(account=WEAK)
        for prefix in ("", "%STAGE%", "%STAGE%|fast|", "%BROKER_STAGE%"):
            fields = {"queueId": "0", "commitOffset": "7", "topic": "mine"}
            named = fields | {"consumerGroup": f"{prefix}victim"}
            assert_refused(await weak.call(Code.UPDATE_CONSUMER_OFFSET, named))
        named = fields | {"consumerGroup": "%STAGE%other"}
        assert (await weak.call(Code.UPDATE_CONSUMER_OFFSET, named)).code == 0


async def test_who_may_read_a_retry_topic_may_end_its_transactions(tmp_path: Path) -> None:
    """To send to a retry topic takes SUB on the group, and so does the end of what was sent."""
    text = ACCOUNTS.replace("groupPerms: [mine=PUB|SUB]", "groupPerms: [mine=SUB]")
    async with open_guarded_broker(tmp_path, "4.x", accounts=text) as broker:
        weak = broker.connect(account=WEAK)
        header = send_header("%RETRY%mine", HALF | {"PGROUP": "mine"}, producer_group="mine")
        half = await weak.call(Code.SEND_MESSAGE_V2, header.to_letters(), b"x")
        assert half.code == 0, half.remark
        assert (await end(weak, half, COMMIT, "mine")).code == 0
