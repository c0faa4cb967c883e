"""A change of accounts or policies counts for everything that is parked: answers are for those who
may ask for them when they are there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from lanemq.proxy.acl._control import LOOK_S
from lanemq.proxy.broker.handlers._client_management import SCAN_S
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.logical.cluster import CLIENT_HOST, open_logical_cluster
from lanemq.testkit.proxy.accounts import (
    ACCOUNTS,
    CHIEF,
    KINDS,
    OWNER,
    WEAK,
    open_guarded_broker,
    shared_accounts,
)
from lanemq.testkit.proxy.brokers import (
    Client,
    TestBroker,
    open_test_broker,
    pull_header,
    send_header,
)
from lanemq.testkit.proxy.keys import Keys
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import PullSysFlag, ResponseCode
from lanemq.wire import RequestCode as Code
from lanemq.wire.bodies import AclInfo, ConsumerIdList, PolicyEntryInfo, PolicyInfo, UserInfo
from lanemq.wire.headers import ConsumeMessageDirectly
from lanemq.wire.kv import Changes, decode_answer, encode_key
from lanemq.wire.requests import REQUESTS

NEWS = b"after the change"
HELD = ACCOUNTS.replace("[victim=PUB|SUB]", "[victim=PUB|SUB, '%KV%shop/victim/*=PUB|SUB']")
WAITING = (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.KV_WATCH, Code.KV_FOLLOW)
REFUSED = {1, 16}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def broker(kind: str, tmp_path: Path, clock: StandingClock) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, kind, accounts=HELD, now_ms=clock) as broker:
        chief = broker.connect(account=CHIEF)
        if kind == "5.x":
            await permit(chief, "Topic:%KV%shop/victim/*")
        assert (await chief.send("victim", b"before")).code == 0
        assert (await Keys(chief, "shop").put(b"victim/1", b"before")).code == 0
        yield broker


async def permit(chief: Client, resource: str, decision: str = "Allow") -> None:
    entry = PolicyEntryInfo(resource, ("All",), None, decision)
    body = AclInfo(f"User:{OWNER[0]}", (PolicyInfo("Custom", (entry,)),)).encode()
    answer = await chief.call(Code.AUTH_UPDATE_ACL, {"subject": f"User:{OWNER[0]}"}, body)
    assert answer.code == 0, answer.remark


async def change(kind: str, what: str, chief: Client) -> None:
    """Take away the owner's rights."""
    name, secret = OWNER
    account = {"accessKey": name, "secretKey": secret, "admin": "false"}
    user, subject = {"username": name}, {"subject": f"User:{name}", "policyType": "Custom"}
    if (kind, what) == ("5.x", "deny"):
        for resource in ("Topic:victim", "Topic:%KV%shop/victim/*"):
            await permit(chief, resource, "Deny")
        return
    code, fields, body = {
        ("4.x", "deny"): (
            Code.UPDATE_AND_CREATE_ACL_CONFIG,
            account | {"topicPerms": "other=SUB", "groupPerms": "victim=SUB"},
            b"",
        ),
        ("4.x", "secret"): (
            Code.UPDATE_AND_CREATE_ACL_CONFIG,
            account | {"secretKey": "another-secret"},
            b"",
        ),
        ("4.x", "delete"): (Code.DELETE_ACL_CONFIG, {"accessKey": name}, b""),
        ("5.x", "secret"): (
            Code.AUTH_UPDATE_USER,
            user,
            UserInfo(name, "another-secret", None).encode(),
        ),
        ("5.x", "delete"): (Code.AUTH_DELETE_USER, user, b""),
        ("5.x", "disable"): (
            Code.AUTH_UPDATE_USER,
            user,
            UserInfo(name, None, None, "disable").encode(),
        ),
        ("5.x", "policies"): (Code.AUTH_DELETE_ACL, subject, b""),
    }[kind, what]
    answer = await chief.call(code, fields, body)
    assert answer.code == 0, answer.remark


async def park(client: Client, code: Code, position: int, queue_id: int = 0) -> None:
    """Ask for what comes next: the answer has to wait."""
    if code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
        fields = pull_header(
            "victim",
            queue_id,
            1,
            consumer_group="victim",
            sys_flag=PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND,
            suspend_timeout_millis=10**9,
        ).to_fields()
    else:
        fields = {"namespace": "shop", "position": str(position), "waitMillis": str(10**9)}
        begin = encode_key(b"victim/")
        if code is Code.KV_WATCH:
            fields |= {"prefix": begin}
        else:
            fields |= {"begin": begin, "end": encode_key(b"victim0")}
    await client.peer.send(client.frame(code, fields))
    await trio.testing.wait_all_tasks_blocked()


async def position_of(chief: Client) -> int:
    """Return the position behind all changes of keys."""
    fields = {"namespace": "shop", "prefix": encode_key(b""), "position": "0"}
    return decode_answer((await chief.call(Code.KV_WATCH, fields)).body, Changes).next_position


async def bring_news(chief: Client) -> None:
    assert (await chief.send("victim", NEWS)).code == 0
    assert (await Keys(chief, "shop").put(b"victim/2", NEWS)).code == 0


CHANGES = [
    *(("4.x", one) for one in ("deny", "secret", "delete")),
    *(("5.x", one) for one in ("deny", "secret", "delete", "disable", "policies")),
]


@pytest.mark.parametrize(("kind", "what"), CHANGES, indirect=["kind"])
@pytest.mark.parametrize("code", WAITING)
async def test_who_may_not_ask_any_more_gets_no_answer_to_what_is_parked(
    broker: TestBroker, kind: str, what: str, code: Code
) -> None:
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    await park(owner, code, await position_of(chief))
    await change(kind, what, chief)
    await bring_news(chief)
    answer = await owner.peer.receive()
    assert answer.code in REFUSED, answer
    assert NEWS not in answer.body
    assert b"victim/2" not in answer.body


@pytest.mark.parametrize("code", WAITING)
async def test_who_may_ask_still_gets_what_it_waits_for(
    broker: TestBroker, kind: str, code: Code
) -> None:
    """Another account has changed."""
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    await park(owner, code, await position_of(chief))
    if kind == "4.x":
        gone = await chief.call(Code.DELETE_ACL_CONFIG, {"accessKey": WEAK[0]})
    else:
        gone = await chief.call(Code.AUTH_DELETE_USER, {"username": WEAK[0]})
    assert gone.code == 0, gone.remark
    await bring_news(chief)
    answer = await owner.peer.receive()
    assert answer.code == 0, answer.remark
    assert NEWS in answer.body or b"victim/2" in answer.body


@pytest.mark.parametrize("kind", ["4.x"], indirect=True)
@pytest.mark.parametrize("code", WAITING)
async def test_a_file_that_is_read_again_counts_for_what_is_parked(
    broker: TestBroker,
    code: Code,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    await park(owner, code, await position_of(chief))
    (tmp_path / "conf" / "plain_acl.yml").write_text(
        ACCOUNTS.replace("[victim=PUB|SUB]", "[other=SUB]")
    )
    await trio.sleep(LOOK_S + 1)
    await bring_news(chief)
    answer = await owner.peer.receive()
    assert answer.code in REFUSED, answer
    assert NEWS not in answer.body


@pytest.mark.parametrize(("kind", "what"), CHANGES, indirect=["kind"])
async def test_members_whose_rights_are_gone_are_sent_nothing(
    broker: TestBroker, kind: str, what: str, clock: StandingClock
) -> None:
    """Neither transactions to check, nor replies, nor messages that an operator hands out."""
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    groups = {"victim": {"victim": "*"}}
    assert (await owner.heartbeat("o", consumers=groups, producers=("victim-tx",))).code == 0
    half = {"TRAN_MSG": "true", "PGROUP": "victim-tx", "UNIQ_KEY": "U1"}
    assert (await chief.send("victim", NEWS, half, sys_flag=4)).code == 0
    sent = await chief.send("victim", NEWS)
    if (kind, what) == ("4.x", "deny"):  # of the topic, until now; the groups are left
        await change(kind, what, chief)
        fields = {"accessKey": OWNER[0], "secretKey": OWNER[1], "admin": "false"}
        fields |= {"topicPerms": "other=SUB", "groupPerms": "victim=DENY,victim-tx=DENY"}
        answer = await chief.call(Code.UPDATE_AND_CREATE_ACL_CONFIG, fields)
        assert answer.code == 0, answer.remark
    else:
        await change(kind, what, chief)
    if (kind, what) == ("5.x", "deny"):
        for group in ("victim", "victim-tx"):
            await permit(chief, f"Group:{group}", "Deny")
    clock.ms += 7000
    await broker.broker.clock_moved()
    handed = ConsumeMessageDirectly(
        consumer_group="victim", client_id="o", msg_id=sent.fields["msgId"]
    )
    answer = await chief.call(Code.CONSUME_MESSAGE_DIRECTLY, handed.to_fields())
    assert "not online" in (answer.remark or ""), answer
    reply = send_header("DefaultCluster_REPLY_TOPIC", {"REPLY_TO_CLIENT": "o"})
    answer = await chief.call(Code.SEND_REPLY_MESSAGE_V2, reply.to_letters(), NEWS)
    assert "not found" in (answer.remark or ""), answer
    await owner.call(Code.HEART_BEAT, body=b"{}")
    told = {Code.NOTIFY_CONSUMER_IDS_CHANGED}
    assert {frame.code for frame in owner.pushed} <= told, owner.pushed


async def members(client: Client) -> list[str]:
    answer = await client.call(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "victim"})
    assert answer.code == 0, answer.remark
    return list(ConsumerIdList.decode(answer.body).consumer_id_list)


@pytest.mark.parametrize(("kind", "what"), CHANGES, indirect=["kind"])
async def test_members_whose_rights_are_gone_leave_their_queues_to_the_others(
    broker: TestBroker, kind: str, what: str, autojump_clock: trio.testing.MockClock
) -> None:
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    groups = {"victim": {"victim": "*", "%RETRY%victim": "*"}}
    for client, name in ((chief, "c"), (owner, "o")):
        assert (await client.heartbeat(name, consumers=groups)).code == 0
    await change(kind, what, chief)
    await trio.sleep(SCAN_S + 1)
    assert await members(chief) == ["c", "o"], "its client may come back with its new secret"
    chief.pushed.clear()
    assert (await owner.heartbeat("o", consumers=groups)).code in REFUSED
    await trio.sleep(SCAN_S + 1)
    assert await members(chief) == ["c"]
    assert [frame.code for frame in chief.pushed] == [Code.NOTIFY_CONSUMER_IDS_CHANGED]


async def test_members_who_have_their_rights_stay_whatever_is_refused_them(
    broker: TestBroker, kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A heartbeat of theirs that anybody may have spoilt, and one for a group of others."""
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    groups = {"victim": {"victim": "*"}}
    assert (await owner.heartbeat("o", consumers=groups)).code == 0
    assert (await owner.heartbeat("o", consumers={"mine": {"mine": "*"}})).code in REFUSED
    owner.account = (OWNER[0], "guessed-secret")
    assert (await owner.heartbeat("o", consumers=groups)).code in REFUSED
    await trio.sleep(SCAN_S + 1)
    assert await members(chief) == ["o"]


@pytest.mark.parametrize("gone", [True, False])
async def test_members_who_need_no_policies_are_sent_nothing_once_they_are_gone(
    tmp_path: Path, gone: bool, clock: StandingClock
) -> None:
    """The broker checks users, and no policies."""
    async with open_test_broker(
        tmp_path,
        now_ms=clock,
        authentication_enabled=True,
        init_authentication_user='{"username":"chief12","password":"secret-of-chief"}',
    ) as broker:
        chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
        user = {"username": OWNER[0]}
        body = UserInfo(None, OWNER[1], None).encode()
        assert (await chief.call(Code.AUTH_CREATE_USER, user, body)).code == 0
        assert (await owner.heartbeat("o", producers=("tx",))).code == 0
        half = {"TRAN_MSG": "true", "PGROUP": "tx", "UNIQ_KEY": "U1"}
        assert (await chief.send("T", NEWS, half, sys_flag=4)).code == 0
        if gone:
            assert (await chief.call(Code.AUTH_DELETE_USER, user)).code == 0
        clock.ms += 7000
        await broker.broker.clock_moved()
        await owner.call(Code.HEART_BEAT, body=b"{}")
        assert [NEWS in frame.body for frame in owner.pushed] == ([] if gone else [True])


async def test_a_client_goes_on_with_its_new_secret(
    broker: TestBroker, kind: str, clock: StandingClock
) -> None:
    """It is asked again once it has proved itself by that, with the same client id."""
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    assert (await owner.heartbeat("o", producers=("victim-tx",))).code == 0
    await change(kind, "secret", chief)
    again = broker.connect(account=(OWNER[0], "another-secret"))
    assert (await again.heartbeat("o", producers=("victim-tx",))).code == 0
    half = {"TRAN_MSG": "true", "PGROUP": "victim-tx", "UNIQ_KEY": "U1"}
    for _ in range(2):  # members are asked in turn
        assert (await chief.send("victim", NEWS, half, sys_flag=4)).code == 0
    clock.ms += 7000
    await broker.broker.clock_moved()
    for client in (owner, again):
        await client.call(Code.HEART_BEAT, body=b"{}")
    assert [NEWS in frame.body for frame in again.pushed] == [True, True]
    assert owner.pushed == []


@pytest.mark.slow  # a cluster of its own
async def test_pulls_parked_through_a_listener_are_looked_at_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """At the broker beside it, and at another one, which knows the listener's account alone."""
    path = tmp_path / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text(HELD)
    async with open_logical_cluster(**shared_accounts(tmp_path)) as cluster:
        for name in cluster.brokers:
            (await cluster.at(name)).account = CHIEF
        await cluster.map_all(queues=2, topic="victim")
        dial = cluster.network.dialer(CLIENT_HOST)
        host = cluster.brokers["broker1"].host
        chief = Client(Peer(await dial(host, LOGICAL_PORT)))
        chief.account = CHIEF
        owners = [Client(Peer(await dial(host, LOGICAL_PORT))) for _ in range(4)]
        for queue_id, owner in enumerate(owners):
            owner.account = OWNER
            assert (await chief.send("victim", b"before", queue_id=queue_id)).code == 0
            await park(owner, Code.PULL_MESSAGE, 0, queue_id)
        path.write_text(ACCOUNTS.replace("[victim=PUB|SUB]", "[other=SUB]"))
        await trio.sleep(LOOK_S + 1)
        for queue_id, owner in enumerate(owners):
            assert (await chief.send("victim", NEWS, queue_id=queue_id)).code == 0
            answer = await owner.peer.receive()
            assert answer.code in REFUSED, answer
            assert NEWS not in answer.body


@pytest.mark.parametrize("code", WAITING)
async def test_what_is_parked_for_very_long_ends_within_minutes(
    broker: TestBroker, code: Code, autojump_clock: trio.testing.MockClock
) -> None:
    chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
    await park(owner, code, await position_of(chief))
    with trio.fail_after(301):
        answer = await owner.peer.receive()
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)


def test_requests_that_may_wait_for_news_are_readers() -> None:
    """A late answer is refused to readers alone: what others asked for is done by then."""
    assert all(REQUESTS[code].only_reads for code in WAITING)
    done = {code for code, spec in REQUESTS.items() if spec.touches and not spec.only_reads}
    assert {
        Code.SEND_MESSAGE_V2,
        Code.UPDATE_CONSUMER_OFFSET,
        Code.HEART_BEAT,
        Code.UNREGISTER_CLIENT,
        Code.CONSUMER_SEND_MSG_BACK,
        Code.LOCK_BATCH_MQ,
        Code.UNLOCK_BATCH_MQ,
        Code.CONSUME_MESSAGE_DIRECTLY,
        Code.KV_WRITE,
        Code.DELETE_ACL_CONFIG,
        Code.AUTH_DELETE_USER,
    } <= done
