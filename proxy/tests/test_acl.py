"""A broker with ACL does nothing of what it refuses, and its accounts change while it runs."""

import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.acl import AccountControl, AccountFiles
from lanemq.proxy.acl._control import LOOK_S, SETTLED_S
from lanemq.proxy.acl._refusals import LINES_MAX, PERIOD_S
from lanemq.proxy.acl._signature_check import SignatureCheck
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.net._dispatch import BODY_BYTES_MAX, TEXT_BODY_BYTES_MAX
from lanemq.testkit.logical.cluster import CLIENT_HOST, open_logical_cluster
from lanemq.testkit.proxy.accounts import shared_accounts
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, send_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import ConsumeStats, KVTable, LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumeMessageDirectly, ConsumerSendMsgBack, ViewMessage
from lanemq.wire.logical import LOCK_FIELD, LOGICAL_QUEUE_BROKER

CHIEF = ("chief12", "secret-of-chief")
CLERK = ("clerk12", "secret-of-clerk")
REMARK = "org.apache.rocketmq.acl.common.AclException: {}"
ACCOUNTS = """
accounts:
  - accessKey: chief12
    secretKey: secret-of-chief
    admin: true
  - accessKey: clerk12
    secretKey: secret-of-clerk
    topicPerms:
      - T={}
    groupPerms:
      - g=SUB
"""
WHOLE = """globalWhiteRemoteAddresses:
  - 10.0.0.12
accounts:
  - accessKey: chief12
    secretKey: secret-of-chief
    admin: true
    topicPerms:
      - T=PUB|SUB
"""
"""Of this some beginnings let in more: a shorter address, an administrator of everything."""


def write_accounts(home: Path, text: str = ACCOUNTS.format("PUB|SUB")) -> Path:
    path = home / "conf" / "plain_acl.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    write_accounts(tmp_path)
    async with open_test_broker(
        tmp_path / "store", acl_enable=True, rocketmq_home=tmp_path
    ) as broker:
        yield broker


async def refused_requests(broker: TestBroker) -> int:
    answer = await broker.connect(account=CHIEF).call(RequestCode.GET_BROKER_RUNTIME_INFO)
    return int(KVTable.decode(answer.body).table["aclRefusedRequests"])


async def test_who_has_the_permission_sends_and_reads(broker: TestBroker) -> None:
    client = broker.connect(account=CLERK)
    assert (await client.send("T", b"mine")).code == 0
    assert (await client.heartbeat(consumers={"g": {"T": "*"}})).code == 0
    assert [message.body for message in await client.messages("T")] == [b"mine"]


async def test_a_refused_request_is_answered_as_apaches_brokers_do_and_does_nothing(
    broker: TestBroker,
) -> None:
    refused = [
        (None, "No accessKey is configured"),
        (("nobody12", "secret"), "No acl config for nobody12"),
        (("clerk12", "guessed"), "Check signature failed for accessKey=clerk12"),
        (CLERK, "No default permission for topic:Other"),
    ]
    for account, text in refused:
        answer = await broker.connect(account=account).send("Other", b"not stored")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == REMARK.format(text)
    answer = await broker.connect(account=CLERK).call(RequestCode.UPDATE_AND_CREATE_TOPIC)
    assert answer.remark == REMARK.format(
        "Need admin permission for request code=17, but accessKey=clerk12 is not"
    )
    assert broker.context.topics.get("Other") is None
    assert broker.context.store.statistics().max_position == 0
    assert await refused_requests(broker) == len(refused) + 1


async def test_codes_that_nobody_has_are_for_accounts_only(broker: TestBroker) -> None:
    answer = await broker.connect(account=None).call(4711)
    assert answer.remark == REMARK.format("No accessKey is configured")
    answer = await broker.connect(account=CLERK).call(4711)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_one_way_requests_are_refused_without_an_answer(broker: TestBroker) -> None:
    client = broker.connect(account=None)
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "7"}
    frame = client.frame(RequestCode.UPDATE_CONSUMER_OFFSET, fields, oneway=True)
    await client.peer.send(frame)
    client.account = CHIEF
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    answer = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, asked)
    assert answer.fields["offset"] == "0"
    assert await refused_requests(broker) == 1


@pytest.mark.parametrize("account", [None, ("clerk12", "guessed"), CLERK])
async def test_a_body_too_long_for_its_code_is_neither_hashed_nor_read(
    broker: TestBroker, account: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, hashed = broker.connect(account=account), hashed_bytes(monkeypatch)
    for code, most_bytes in (
        (RequestCode.HEART_BEAT, BODY_BYTES_MAX),
        (RequestCode.PULL_MESSAGE, TEXT_BODY_BYTES_MAX),
        (RequestCode.QUERY_MESSAGE, TEXT_BODY_BYTES_MAX),
        (RequestCode.UPDATE_BROKER_CONFIG, TEXT_BODY_BYTES_MAX),
        (4711, BODY_BYTES_MAX),
    ):
        answer = await client.call(code, body=b"[" * (most_bytes + 1))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(f"a body of {most_bytes + 1} bytes"), answer
    assert hashed == []
    assert (await client.call(RequestCode.SEND_MESSAGE_V2, body=bytes(BODY_BYTES_MAX + 1))).remark
    assert hashed == ([] if account is None else [BODY_BYTES_MAX + 1])


async def test_a_body_is_hashed_once_for_a_request_that_is_not_signed(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its fields' order is known, or where it has a flag that queries alone have."""
    client, forger = broker.connect(account=CLERK), broker.connect(account=("clerk12", "guessed"))
    fields = send_header("T").to_letters()
    assert (await client.send("T")).code == 0
    hashed = hashed_bytes(monkeypatch)
    for more in ({}, {"_UNIQUE_KEY_QUERY": "true"}):
        answer = await forger.call(RequestCode.SEND_MESSAGE_V2, fields | more, bytes(1000))
        assert "Check signature failed" in (answer.remark or "")
    assert hashed == [1000, 1000]


def hashed_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the lengths of the bodies that are hashed from now on."""
    hashed: list[int] = []
    fits = SignatureCheck._fits

    def counted(self: SignatureCheck, values: Iterable[str], frame: Frame) -> bool:
        hashed.append(len(frame.body))
        return fits(self, values, frame)

    monkeypatch.setattr(SignatureCheck, "_fits", counted)
    return hashed


async def test_a_changed_file_counts_within_seconds(
    broker: TestBroker, autojump_clock: MockClock, tmp_path: Path
) -> None:
    client = broker.connect(account=CLERK)
    assert (await client.send("T")).code == 0
    write_accounts(tmp_path, ACCOUNTS.format("SUB"))
    await trio.sleep(LOOK_S + 1)
    answer = await client.send("T")
    assert answer.remark == REMARK.format("No default permission for topic:T")
    added = tmp_path / "conf" / "acl" / "more.yml"
    added.parent.mkdir()
    added.write_text("accounts:\n  - {accessKey: visitor, secretKey: of-visitor, admin: true}\n")
    await trio.sleep(LOOK_S + 1)
    visitor = broker.connect(account=("visitor", "of-visitor"))
    assert (await visitor.send("T")).code == 0
    added.unlink()
    await trio.sleep(LOOK_S + 1)
    assert (await visitor.send("T")).remark == REMARK.format("No acl config for visitor")


@pytest.mark.parametrize("cut", range(0, len(WHOLE), 7))
async def test_a_half_written_file_lets_in_nobody_that_the_whole_does_not(
    broker: TestBroker, autojump_clock: MockClock, tmp_path: Path, cut: int
) -> None:
    """It is written in two parts, while the broker looks: what the first one means never counts."""
    half = write_accounts(tmp_path, WHOLE[:cut])
    for _ in range(round(LOOK_S / SETTLED_S) + 1):
        await trio.sleep(SETTLED_S * 0.9)
        assert (await broker.connect(account=CHIEF).send("Other")).code == 0, "as before"
        assert (await broker.connect("10.0.0.1").send("T")).code == 1
        half.write_text(WHOLE[: (cut := cut + 1)])
    half.write_text(WHOLE)
    await trio.sleep(LOOK_S + 1)
    assert (await broker.connect(account=CHIEF).send("Other")).code == 1
    assert (await broker.connect(account=CHIEF).send("T")).code == 0


async def test_a_file_that_cannot_be_read_changes_nothing_and_is_named_once(
    broker: TestBroker, autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_accounts(tmp_path, "accounts:\n  - accessKey: clerk12\n    secretKey: 'hush\n")
    with caplog.at_level(logging.ERROR, "lanemq.proxy.acl"):
        await trio.sleep(4 * LOOK_S)
    (told,) = caplog.messages
    assert told.startswith(f"{path}, line 4, secretKey: ")
    assert told.endswith("; the accounts read before stay in force")
    assert "hush" not in told
    assert (await broker.connect(account=CLERK).send("T")).code == 0
    path.unlink()
    await trio.sleep(LOOK_S + 1)
    assert (await broker.connect(account=CLERK).send("T")).code == 0
    write_accounts(tmp_path, ACCOUNTS.format("DENY"))
    await trio.sleep(LOOK_S + 1)
    assert (await broker.connect(account=CLERK).send("T")).code == ResponseCode.SYSTEM_ERROR


async def test_refusals_are_logged_with_peer_and_account_but_not_each_of_thousands(
    broker: TestBroker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = broker.connect(account=("clerk12", "guessed"))
    with caplog.at_level(logging.WARNING, "lanemq.proxy.acl"):
        for _ in range(LINES_MAX + 25):
            await client.send("T")
        assert len(caplog.messages) == LINES_MAX
        await trio.sleep(PERIOD_S)
        await client.send("T")
    assert caplog.messages[0] == (
        "request 310 from 127.0.0.1:40001 with access key 'clerk12' refused: "
        "Check signature failed for accessKey=clerk12"
    )
    assert caplog.messages[-1].endswith("(25 more were refused since the line before)")
    assert not any("guessed" in line or "secret-of" in line for line in caplog.messages)


async def test_names_that_a_peer_makes_up_do_not_spoil_the_log(
    broker: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "lanemq.proxy.acl"):
        await broker.connect(account=("me\nERROR all is lost" + "x" * 5000, "guessed")).send("T")
    (line,) = caplog.messages
    assert "\n" not in line
    assert len(line) < 600


async def test_white_lists_are_looked_up_for_the_peers_address(tmp_path: Path) -> None:
    white = "globalWhiteRemoteAddresses:\n  - 10.7.*.*\n"
    write_accounts(tmp_path, white + ACCOUNTS.format("DENY"))
    async with open_test_broker(
        tmp_path / "store", acl_enable=True, rocketmq_home=tmp_path
    ) as broker:
        assert (await broker.connect("10.7.1.1").send("T")).code == 0
        assert (await broker.connect("10.8.1.1").send("T")).code == ResponseCode.SYSTEM_ERROR


def test_a_start_without_readable_accounts_is_refused(tmp_path: Path) -> None:
    write_accounts(tmp_path, "accounts: 7\n")
    with pytest.raises(ValueError, match=r"plain_acl\.yml, line 1, accounts: not a list"):
        AccountControl(AccountFiles(tmp_path))


def test_acl_needs_a_home_and_an_account_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(ValueError, match="set rocketmqHome, or the environment variable"):
        BrokerConfig(acl_enable=True)
    monkeypatch.setenv("ROCKETMQ_HOME", "/opt/rocketmq")
    assert BrokerConfig(acl_enable=True).rocketmq_home == Path("/opt/rocketmq")
    with pytest.raises(ValueError, match="innerClientAuthenticationCredentials must be") as caught:
        BrokerConfig(inner_client_authentication_credentials='{"accessKey":"hush-hush"}')
    assert "hush" not in str(caught.value)


async def test_the_brokers_own_secret_is_not_shown(tmp_path: Path) -> None:
    write_accounts(tmp_path)
    async with open_test_broker(
        tmp_path / "store",
        acl_enable=True,
        rocketmq_home=tmp_path,
        inner_client_authentication_credentials=(
            '{"accessKey":"chief12","secretKey":"secret-of-chief"}'
        ),
    ) as broker:
        assert "secret-of-chief" not in repr(broker.context.config)
        client = broker.connect(account=CHIEF)
        answer = await client.call(RequestCode.GET_BROKER_CONFIG)
        assert b"aclEnable=true" in answer.body
        assert b"secret-of-chief" not in answer.body
        body = b"innerClientAuthenticationCredentials=x"
        answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        assert answer.code == ResponseCode.NO_PERMISSION
        answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"aclEnable=false")
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_requests_with_a_batch_are_judged_one_by_one(broker: TestBroker) -> None:
    client = broker.connect(account=CLERK)
    frames = [
        client.frame(310, send_header(topic).to_letters(), b"body") for topic in ("T", "Other", "T")
    ]
    await client.peer.send(*frames)
    codes = {(answer := await client.peer.receive()).opaque: answer.code for _ in frames}
    assert [codes[frame.opaque] for frame in frames] == [0, 1, 0]


@pytest.mark.slow  # a cluster of its own
async def test_listeners_check_clients_and_sign_what_they_pass_on(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    write_accounts(tmp_path)
    async with open_logical_cluster(**shared_accounts(tmp_path)) as cluster:
        for name in cluster.brokers:
            (await cluster.at(name)).account = CHIEF
        await cluster.map_all(queues=2)
        dial = cluster.network.dialer(CLIENT_HOST)
        client = Client(Peer(await dial(cluster.brokers["broker1"].host, LOGICAL_PORT)))
        answer = await client.send("T", b"from nobody", queue_id=3)
        assert answer.remark == REMARK.format("No accessKey is configured")
        client.account = CLERK
        for index in range(4):  # two of them are at the other broker
            answer = await client.send("T", b"%d" % index, queue_id=index)
            assert answer.code == 0, answer.remark
            (message,) = await client.messages("T", queue_id=index)
            assert message.body == b"%d" % index
        answer = await client.send("Other")
        assert answer.remark == REMARK.format("No default permission for topic:Other")


@pytest.mark.slow  # a cluster of its own
async def test_locks_through_listeners_are_those_of_an_account(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Also at another broker, which is asked in this one's name, and where the queue goes."""
    rights = "topicPerms: [T=PUB|SUB], groupPerms: [g=PUB|SUB]}\n"
    write_accounts(
        tmp_path,
        ACCOUNTS.format("PUB|SUB")
        + f"  - {{accessKey: weak1234, secretKey: secret-of-weak, {rights}"
        + f"  - {{accessKey: weak5678, secretKey: secret-of-weak, {rights}",
    )
    async with open_logical_cluster(**shared_accounts(tmp_path)) as cluster:
        for name in cluster.brokers:
            (await cluster.at(name)).account = CHIEF
        await cluster.map_all(queues=2)
        dial = cluster.network.dialer(CLIENT_HOST)
        host = cluster.brokers["broker1"].host
        holder, other = [Client(Peer(await dial(host, LOGICAL_PORT))) for _ in range(2)]
        holder.account, other.account = (
            (name, "secret-of-weak") for name in ("weak1234", "weak5678")
        )
        queues = {MessageQueue("T", LOGICAL_QUEUE_BROKER, index) for index in range(4)}
        body = LockBatch("g", "c", tuple(queues)).encode()

        async def locked(client: Client) -> set[MessageQueue]:
            answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=body)
            assert answer.code == 0, answer.remark
            return set(LockBatchResult.decode(answer.body).lock_ok_mq_set)

        for name in cluster.brokers:  # as listeners of an earlier version ask for their clients
            old, fields = await cluster.at(name), {LOCK_FIELD: "true"}
            assert (await old.call(RequestCode.LOCK_BATCH_MQ, fields, body)).code == 0
        assert await locked(holder) == queues, "the same client, behind a listener of today"
        for name in ("broker2", "broker1"):
            assert await locked(other) == set()
            assert (await other.call(RequestCode.UNLOCK_BATCH_MQ, body=body)).code == 0
            assert await locked(holder) == queues
            await cluster.migrate(0, name)
        assert (await holder.call(RequestCode.UNLOCK_BATCH_MQ, body=body)).code == 0
        assert await locked(other) == queues


@pytest.mark.slow  # a cluster of its own
async def test_listeners_find_messages_of_any_broker_for_those_who_may_read_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Other brokers are asked in this one's name, so the listener checks what they answer."""
    write_accounts(
        tmp_path,
        ACCOUNTS.format("PUB|SUB")
        + "  - {accessKey: weak1234, secretKey: secret-of-weak, topicPerms: [mine=PUB|SUB],\n"
        "     groupPerms: [mine=PUB|SUB]}\n",
    )
    async with open_logical_cluster(**shared_accounts(tmp_path)) as cluster:
        for name in cluster.brokers:
            (await cluster.at(name)).account = CHIEF
        await cluster.map_all(queues=2)
        dial = cluster.network.dialer(CLIENT_HOST)
        host = cluster.brokers["broker1"].host
        clerk, weak = [Client(Peer(await dial(host, LOGICAL_PORT))) for _ in range(2)]
        clerk.account, weak.account = CLERK, ("weak1234", "secret-of-weak")
        assert (await weak.heartbeat("w", consumers={"mine": {"mine": "*"}})).code == 0
        for index in range(4):
            assert (await clerk.send("T", b"%d" % index, queue_id=index)).code == 0
            (message,) = await clerk.messages("T", queue_id=index)
            position = message.log_position
            seen = ViewMessage(position).to_fields()
            assert (await clerk.call(RequestCode.VIEW_MESSAGE_BY_ID, seen)).code == 0
            back = ConsumerSendMsgBack(offset=position, group="mine", delay_level=-1)
            handed = ConsumeMessageDirectly(
                consumer_group="mine", client_id="w", msg_id=message.offset_id
            )
            for code, header in (
                (RequestCode.VIEW_MESSAGE_BY_ID, seen),
                (RequestCode.CONSUMER_SEND_MSG_BACK, back.to_fields()),
                (RequestCode.CONSUME_MESSAGE_DIRECTLY, handed.to_fields()),
            ):
                answer = await weak.call(code, header | {"topic": "mine"})
                assert answer.remark == REMARK.format("No default permission for topic:T")
                assert answer.body == b""
            back = ConsumerSendMsgBack(offset=position, group="g", delay_level=-1)
            answer = await clerk.call(RequestCode.CONSUMER_SEND_MSG_BACK, back.to_fields())
            assert answer.code == 0, answer.remark


@pytest.mark.slow  # a cluster of its own
async def test_progress_in_logical_queues_is_that_in_topics_of_who_asks(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    write_accounts(
        tmp_path,
        ACCOUNTS.format("PUB|SUB")
        + "  - {accessKey: weak1234, secretKey: secret-of-weak, groupPerms: [g=SUB]}\n",
    )
    async with open_logical_cluster(**shared_accounts(tmp_path)) as cluster:
        for name in cluster.brokers:
            (await cluster.at(name)).account = CHIEF
        await cluster.map_all(queues=2)
        dial = cluster.network.dialer(CLIENT_HOST)
        host = cluster.brokers["broker1"].host
        clerk, weak = [Client(Peer(await dial(host, LOGICAL_PORT))) for _ in range(2)]
        clerk.account, weak.account = CLERK, ("weak1234", "secret-of-weak")
        assert (await clerk.heartbeat("c", consumers={"g": {"T": "*"}})).code == 0
        place = {"topic": "T", "consumerGroup": "g", "queueId": "0"}
        committed = {**place, "commitOffset": "0"}
        assert (await clerk.call(RequestCode.UPDATE_CONSUMER_OFFSET, committed)).code == 0
        brokers = [await cluster.connect("broker1") for _ in range(2)]
        for broker, client in zip(brokers, (clerk, weak), strict=True):
            broker.account = client.account
            for asked in (client, broker):
                answer = await asked.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
                table = ConsumeStats.decode(answer.body).offset_table
                assert {queue.topic for queue in table} == ({"T"} if client is clerk else set())
