"""Users and policies as 5.x has them: who is let in, what they may, and how tools change that."""

import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from lanemq.proxy.acl.users._policies import (
    DECISIONS_REMEMBERED,
    Decider,
    Entry,
    Policies,
    PolicyType,
    never_matched,
)
from lanemq.proxy.acl.users._resources import (
    EVERYTHING,
    NAME_MAX,
    Need,
    Resource,
    group_need,
    topic_need,
)
from lanemq.proxy.acl.users._table import entries_of
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.process._run import users_of
from lanemq.testkit.logical.cluster import CLIENT_HOST, open_logical_cluster
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, pull_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumerSendMsgBack, UpdateConsumerOffset, ViewMessage
from lanemq.wire.message import decode_offset_id
from lanemq.wire.requests import Action, Kind

CHIEF, CLERK = ("chief", "of-chief"), ("clerk", "of-clerk")
FIRST = '{"username":"chief","password":"of-chief"}'
SETTINGS: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": FIRST,
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_test_broker(tmp_path, **SETTINGS) as broker:
        chief = broker.connect(account=CHIEF)
        assert (await create_user(chief, *CLERK)).code == 0
        yield broker


async def create_user(client: Client, name: str, password: str, user_type: str = "") -> Frame:
    body = UserInfo(None, password, user_type or None).encode()
    return await client.call(Code.AUTH_CREATE_USER, {"username": name}, body)


async def permit(
    client: Client,
    resource: str,
    *actions: str,
    decision: str = "Allow",
    user: str = "clerk",
    networks: tuple[str, ...] = (),
) -> Frame:
    entry = PolicyEntryInfo(resource, actions, networks or None, decision)
    body = AclInfo(f"User:{user}", (PolicyInfo("Custom", (entry,)),)).encode()
    return await client.call(Code.AUTH_CREATE_ACL, {"subject": f"User:{user}"}, body)


# Which entry decides


def decision(policies: Policies, need: Need, host: str) -> bool | None:
    return Decider(policies).decide(need, host)


def entry(resource: str, *, is_allowed: bool, networks: tuple[str, ...] = ()) -> Entry:
    parsed = Resource.parse(resource)
    assert parsed is not None
    return Entry(parsed, (Action.PUB,), networks, is_allowed)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], None),
        ([("Topic:T", True)], True),
        ([("Topic:Other", True)], None),
        ([("Group:T", True)], None),
        ([("*", True)], True),
        ([("Topic:*", True), ("Topic:T", False)], False),
        ([("Topic:T*", False), ("Topic:T", True)], True),
        ([("Topic:*", False), ("Topic:T*", True)], True),
        ([("*", False), ("Topic:*", True)], True),
        ([("Topic:TT*", True), ("Topic:T*", False)], False),
    ],
)
def test_the_nearest_entry_decides(entries: list[tuple[str, bool]], expected: bool | None) -> None:
    for order in (entries, entries[::-1]):
        made = [entry(resource, is_allowed=allowed) for resource, allowed in order]
        policies = {PolicyType.CUSTOM: {one.resource: one for one in made}}
        assert decision(policies, topic_need("T", Action.PUB), "10.0.0.1") is expected


def test_a_longer_beginning_is_nearer_than_a_shorter_one() -> None:
    made = [entry("Topic:T*", is_allowed=True), entry("Topic:TT*", is_allowed=False)]
    policies = {PolicyType.CUSTOM: {one.resource: one for one in made}}
    assert decision(policies, topic_need("TTT", Action.PUB), "10.0.0.1") is False


def test_custom_policies_count_before_default_ones() -> None:
    allowed, denied = entry("*", is_allowed=True), entry("Topic:T", is_allowed=False)
    policies = {
        PolicyType.DEFAULT: {denied.resource: denied},
        PolicyType.CUSTOM: {allowed.resource: allowed},
    }
    assert decision(policies, topic_need("T", Action.PUB), "10.0.0.1") is True


def test_an_entry_counts_for_its_actions_and_networks() -> None:
    made = entry("Topic:T", is_allowed=True, networks=("10.0.0.0/8", "::1"))
    policies = {PolicyType.CUSTOM: {made.resource: made}}
    assert decision(policies, topic_need("T", Action.PUB, Action.GET), "10.9.9.9") is True
    assert decision(policies, topic_need("T", Action.SUB), "10.9.9.9") is None
    assert decision(policies, topic_need("T", Action.PUB), "11.9.9.9") is None
    assert decision(policies, topic_need("T", Action.PUB), "::1") is True


def test_decisions_that_are_remembered_are_those_of_the_policies() -> None:
    """By topic, action and address, time and again; names that nobody may have are forgotten."""
    made = [
        entry("Topic:T", is_allowed=True, networks=("10.0.0.0/8",)),
        entry("Topic:X*", is_allowed=False),
    ]
    policies = {PolicyType.CUSTOM: {one.resource: one for one in made}}
    decider = Decider(policies)
    for _ in range(2):
        for name in ("T", "X1", "Y", "T" * (NAME_MAX + 1)):
            for action in (Action.PUB, Action.SUB):
                for host in ("10.0.0.1", "11.0.0.1"):
                    need = topic_need(name, action)
                    assert need == Need(Kind.TOPIC, name, frozenset({action}))
                    assert decider.decide(need, host) is decision(policies, need, host)
    for number in range(2 * DECISIONS_REMEMBERED):
        decider.decide(topic_need(f"{number:0>{NAME_MAX}}", Action.PUB), "10.0.0.1")
    assert decider._remembered.cache_info().currsize == DECISIONS_REMEMBERED


def test_names_that_nest_without_end_are_nobodys() -> None:
    everything = entry("Group:x", is_allowed=True)
    policies = {PolicyType.CUSTOM: {everything.resource: everything}}
    for prefix in ("%STAGE%", "%BROKER_STAGE%", "%STAGE%|a|"):
        assert decision(policies, group_need(f"{prefix}x", Action.PUB), "10.0.0.1") is True
        assert decision(policies, group_need(prefix * 10_000 + "x", Action.PUB), "10.0.0.1") is None


NESTED = [
    "".join(prefixes) + "g"
    for depth in (1, 2, 3)
    for prefixes in itertools.product(("%RETRY%", "%DLQ%"), repeat=depth)
]


def test_a_retry_topic_is_its_group() -> None:
    assert topic_need("%RETRY%g", Action.SUB) == group_need("g", Action.SUB)
    for name in NESTED:
        assert group_need(name, Action.SUB) == group_need("g", Action.SUB)
        need = topic_need(name, Action.SUB)
        assert (need if name.startswith("%RETRY%") else need.owner) == group_need("g", Action.SUB)
    assert isinstance(group_need("g"), Need)


# Who is let in


@pytest.mark.parametrize(
    ("account", "remark"),
    [
        (None, "username cannot be null."),
        (("stranger", "x"), "User:stranger is not found."),
        (("clerk", "guessed"), "check signature failed."),
        (
            CLERK,
            "User:clerk has no permission to access Topic:T from 127.0.0.1, no matched policies.",
        ),
    ],
)
async def test_a_refusal_has_the_code_and_the_words_of_apache(
    broker: TestBroker, account: tuple[str, str] | None, remark: str
) -> None:
    answer = await broker.connect(account=account).send("T")
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, remark)
    assert broker.context.store.statistics().max_position == 0
    assert broker.context.access_control is not None
    assert broker.context.access_control.refusals.count == 1


async def test_a_nearer_denial_of_one_action_takes_what_the_other_allows(
    broker: TestBroker,
) -> None:
    """As at 5.3.3: one entry decides about a request, the nearest about any of its actions."""
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    await chief.send("orders")
    assert (await permit(chief, "Topic:*", "Sub")).code == 0
    assert (await permit(chief, "Group:g", "Sub", "Update")).code == 0
    commit = UpdateConsumerOffset("g", "orders", 0, 0).to_fields()
    assert (await clerk.call(Code.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    assert (await permit(chief, "Topic:orders", "Update", decision="Deny")).code == 0
    answer = await clerk.call(Code.UPDATE_CONSUMER_OFFSET, commit)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (answer.remark or "").endswith("the decision is deny.")
    pulled = await clerk.call(Code.PULL_MESSAGE, pull_header("orders", 0, 0).to_fields())
    assert pulled.code == 0, "a request with the other action alone"
    assert (await permit(chief, "Topic:orders", "Sub", decision="Allow")).code == 0
    assert (await clerk.call(Code.UPDATE_CONSUMER_OFFSET, commit)).code == 0, "it replaces"


async def test_a_user_may_what_its_policies_allow(broker: TestBroker) -> None:
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    assert (await permit(chief, "Topic:T", "Pub", "Sub")).code == 0
    assert (await clerk.send("T", b"mine")).code == 0
    answer = await clerk.call(Code.PULL_MESSAGE, pull_header("T", 0, 0).to_fields())
    assert answer.remark is not None
    assert "Group:g" in answer.remark
    assert (await permit(chief, "Group:g*", "Sub")).code == 0
    assert [message.body for message in await clerk.messages("T")] == [b"mine"]
    assert (await clerk.heartbeat(consumers={"g": {"T": "*", "%RETRY%g": "*"}})).code == 0
    assert (await permit(chief, "Topic:T", "Pub", decision="Deny")).code == 0
    answer = await clerk.send("T")
    assert answer.remark is not None
    assert answer.remark.endswith("the decision is deny.")


@pytest.mark.parametrize(
    ("code", "fields", "resource"),
    [
        (Code.UPDATE_BROKER_CONFIG, {}, "Cluster:DefaultCluster"),
        (Code.UPDATE_AND_CREATE_TOPIC, {"topic": "T"}, "Topic:T"),
        (Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"}, "Topic:T"),
        (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"}, "Group:g"),
        (Code.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "T", "group": "g"}, "Topic:T"),
        (Code.AUTH_CREATE_USER, {"username": "x"}, "Cluster:DefaultCluster"),
        (Code.AUTH_LIST_USER, {}, "Cluster:DefaultCluster"),
        (Code.SEAL_TOPIC_LOGICAL_QUEUE, {}, "Cluster:DefaultCluster"),
        (Code.KV_WRITE, {"namespace": "shop"}, "Topic:%KV%shop"),
        (Code.LITE_PULL_MESSAGE, {"topic": "T", "consumerGroup": "g"}, "Topic:T"),
        (Code.SEND_REPLY_MESSAGE_V2, {"b": "T"}, "Topic:T"),
    ],
)
async def test_what_changes_things_needs_a_policy(
    broker: TestBroker, code: int, fields: dict[str, str], resource: str
) -> None:
    answer = await broker.connect(account=CLERK).call(code, fields)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark is not None
    assert f"no permission to access {resource} from" in answer.remark


async def test_who_consumes_as_a_group_changes_no_topic_of_its_dead_letters(
    broker: TestBroker,
) -> None:
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    assert (await permit(chief, "Group:g", "Pub", "Sub", "Get")).code == 0
    assert (await chief.send("%DLQ%g", b"dead")).code == 0
    assert [one.body for one in await clerk.messages("%DLQ%g")] == [b"dead"]
    topic = {"topic": "%DLQ%g"}
    changes = {"perm": "2", "readQueueNums": "9", "writeQueueNums": "9"}
    for code in (
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
    ):
        fields = {**topic, **changes, "group": "g", "timestamp": "0", "isForce": "true"}
        answer = await clerk.call(code, fields)
        assert answer.code == ResponseCode.NO_PERMISSION, code
        assert "Topic:%DLQ%g" in (answer.remark or "")
    config = broker.context.topics.get("%DLQ%g")
    assert config is not None
    assert config.read_queue_nums != 9
    assert (await permit(chief, "Group:g", "Delete")).code == 0
    assert (await clerk.call(Code.DELETE_TOPIC_IN_BROKER, topic)).code == 0


async def test_rights_to_a_group_are_rights_to_its_retry_topic(broker: TestBroker) -> None:
    """Also where the topic is found, not named."""
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    sent = await chief.send("%RETRY%g", b"again")
    _, position = decode_offset_id(sent.fields["msgId"])
    seen = ViewMessage(position).to_fields()
    assert (await clerk.call(Code.VIEW_MESSAGE_BY_ID, seen)).code == ResponseCode.NO_PERMISSION
    assert (await permit(chief, "Group:g", "Get", "Update")).code == 0
    assert b"again" in (await clerk.call(Code.VIEW_MESSAGE_BY_ID, seen)).body
    assert (await permit(chief, "Group:h", "Update")).code == 0
    offsets = broker.context.store.tables.consumer_offsets
    offsets.put("g", "%RETRY%g", 0, 1)
    copied = {"srcGroup": "g", "destGroup": "h", "offline": "true"}
    assert (await clerk.call(Code.CLONE_GROUP_OFFSET, copied)).code == 0
    assert offsets.get("h", "%RETRY%g", 0) == 1
    assert (await clerk.send("%RETRY%g")).code == ResponseCode.NO_PERMISSION


async def test_disabled_users_are_not_let_in(broker: TestBroker) -> None:
    chief = broker.connect(account=CHIEF)
    body = UserInfo(None, None, None, "disable").encode()
    assert (await chief.call(Code.AUTH_UPDATE_USER, {"username": "clerk"}, body)).code == 0
    answer = await broker.connect(account=CLERK).call(Code.GET_BROKER_RUNTIME_INFO)
    assert answer.remark == "User:clerk is disabled."
    body = UserInfo(None, "of-clerk-2", None, "enable").encode()
    assert (await chief.call(Code.AUTH_UPDATE_USER, {"username": "clerk"}, body)).code == 0
    old, new = broker.connect(account=CLERK), broker.connect(account=("clerk", "of-clerk-2"))
    assert (
        await old.call(Code.CHECK_CLIENT_CONFIG, body=b"{}")
    ).remark == "check signature failed."
    assert (await new.call(Code.CHECK_CLIENT_CONFIG, body=b"{}")).code == 0


async def test_codes_may_be_open_to_all_or_to_every_user(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "authentication_whitelist": "28",
        "authorization_whitelist": "28,310",
    }
    async with open_test_broker(tmp_path, **SETTINGS, **settings) as broker:
        await create_user(broker.connect(account=CHIEF), *CLERK)
        assert (await broker.connect(account=None).call(Code.GET_BROKER_RUNTIME_INFO)).code == 0
        assert (await broker.connect(account=CLERK).send("T")).code == 0
        assert (await broker.connect(account=None).send("T")).code == ResponseCode.NO_PERMISSION
        # What servers say of the clients that they speak for stays theirs, whatever the code.
        fields, clerk = {"lanemqBornHost": "0a0000010000162e"}, broker.connect(account=CLERK)
        for code in (Code.GET_BROKER_RUNTIME_INFO, Code.SEND_MESSAGE_V2):
            answer = await clerk.call(code, fields)
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "lanemqBornHost" in (answer.remark or "")
        chief = broker.connect(account=CHIEF)
        assert (await chief.call(Code.GET_BROKER_RUNTIME_INFO, fields)).code == 0


# What tools do


async def test_super_users_are_made_by_super_users(broker: TestBroker) -> None:
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    await permit(chief, "Cluster:*", "All")
    answer = await create_user(clerk, "boss", "of-boss", "Super")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The super user can only be create by super user"
    assert (await create_user(chief, "boss", "of-boss", "super")).code == 0
    for code in (Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER):
        answer = await clerk.call(code, {"username": "boss"}, b"{}")
        assert answer.remark == "The super user can only be update by super user"
    assert (await chief.call(Code.AUTH_DELETE_USER, {"username": "boss"})).code == 0


@pytest.mark.parametrize("code", [Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL])
async def test_policies_of_super_users_are_changed_by_super_users(
    broker: TestBroker, code: Code
) -> None:
    """Whoever may change the others' may not, however the request names the subject."""
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    await permit(chief, "Cluster:DefaultCluster", "Update", "Delete", "Create")
    assert (await permit(chief, "Topic:T", "Pub", user="chief")).code == 0
    shown = (await chief.call(Code.AUTH_GET_ACL, {"subject": "User:chief"})).body
    entry = PolicyEntryInfo("*", ("All",), None, "Deny")
    fields = {"policyType": "Custom", "resource": ""}
    for header, body in (("User:chief", "User:chief"), ("User:clerk", "User:chief")):
        if code == Code.AUTH_DELETE_ACL and header == "User:clerk":
            continue  # its body says nothing
        info = AclInfo(body, (PolicyInfo("Custom", (entry,)),)).encode()
        answer = await clerk.call(code, fields | {"subject": header}, info)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "The super user can only be update by super user"
    assert (await chief.call(Code.AUTH_GET_ACL, {"subject": "User:chief"})).body == shown
    info = AclInfo("User:chief", (PolicyInfo("Custom", (entry,)),)).encode()
    assert (await chief.call(code, fields | {"subject": "User:chief"}, info)).code == 0


async def test_passwords_are_shown_to_super_users_alone(broker: TestBroker) -> None:
    """Whoever sees a password may do what its user may."""
    chief, clerk = broker.connect(account=CHIEF), broker.connect(account=CLERK)
    await permit(chief, "Cluster:*", "All")
    await permit(chief, "*", "All")
    for client, is_shown in ((chief, True), (clerk, False)):
        for name, secret in (CHIEF, CLERK):
            shown = await client.call(Code.AUTH_GET_USER, {"username": name})
            found = UserInfo.decode(shown.body)
            assert (found.username, found.password) == (name, secret if is_shown else None)
        listed = await client.call(Code.AUTH_LIST_USER, {})
        assert (b"of-chief" in listed.body) is is_shown
        assert len(json.loads(listed.body)) == 2


async def test_lists_of_users_and_policies_are_written_beside_the_loop(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be 10,000 users, with 1,000 entries each."""
    threads: set[int] = set()
    of_info, of_acl = UserInfo.to_json, AclInfo.to_json

    def recorded(method: Callable[[Any], object]) -> Callable[[Any], object]:
        def to_json(info: object) -> object:
            threads.add(threading.get_ident())
            return method(info)

        return to_json

    chief = broker.connect(account=CHIEF)
    await permit(chief, "Topic:T", "Pub")
    monkeypatch.setattr(UserInfo, "to_json", recorded(of_info))
    monkeypatch.setattr(AclInfo, "to_json", recorded(of_acl))
    for code in (Code.AUTH_LIST_USER, Code.AUTH_LIST_ACL):
        threads.clear()
        assert b"clerk" in (await chief.call(code, {})).body
        assert threads
        assert threading.get_ident() not in threads


async def test_a_name_that_need_not_be_signed_is_no_super_user(tmp_path: Path) -> None:
    codes = ",".join(str(int(code)) for code in Code if 3001 <= code <= 3005)
    async with open_test_broker(
        tmp_path, **SETTINGS, authentication_whitelist=codes, authorization_whitelist=codes
    ) as broker:
        nobody, named = broker.connect(), {"AccessKey": "chief"}
        body = UserInfo(None, "guessed", "Super").encode()
        answer = await nobody.call(Code.AUTH_CREATE_USER, {"username": "boss", **named}, body)
        assert answer.remark == "The super user can only be create by super user"
        for code in (Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER):
            answer = await nobody.call(code, {"username": "chief", **named}, b"{}")
            assert answer.remark == "The super user can only be update by super user"
        shown = await nobody.call(Code.AUTH_GET_USER, {"username": "chief", **named})
        assert b"of-chief" not in shown.body


@pytest.mark.slow  # a cluster of its own
async def test_who_signs_what_need_not_be_signed_keeps_its_rights_where_it_is_passed_on(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A listener, and a broker whose queue has moved, write the request again: its signature is
    no longer for that one."""
    codes = ",".join(str(int(code)) for code in (Code.SEND_MESSAGE_V2, Code.CONSUMER_SEND_MSG_BACK))
    inner = '{"accessKey":"chief","secretKey":"of-chief"}'
    async with open_logical_cluster(
        "broker1",
        **SETTINGS,
        store_path_root_dir=tmp_path,  # of the users, who are in real files
        authentication_whitelist=codes,
        inner_client_authentication_credentials=inner,
    ) as cluster:
        chief = await cluster.at("broker1")
        chief.account = CHIEF
        assert (await create_user(chief, *CLERK)).code == 0
        assert (await permit(chief, "Topic:T", "Pub", "Sub")).code == 0
        assert (await permit(chief, "Group:g", "Sub")).code == 0
        assert (await permit(chief, "Topic:%LMQ%own", "Pub")).code == 0
        await cluster.map_all(queues=2)
        dial = cluster.network.dialer(CLIENT_HOST)
        host = cluster.brokers["broker1"].host
        at_listener, nobody = [Client(Peer(await dial(host, LOGICAL_PORT))) for _ in range(2)]
        at_broker = await cluster.connect("broker1", version=407)
        at_listener.account = at_broker.account = CLERK

        async def is_taken(client: Client, light: str) -> bool:
            lights = {"INNER_MULTI_DISPATCH": light, "DELAY": "1"}
            answer = await client.send("T", b"x", lights, queue_id=0)
            assert answer.code == 0 or "permission" in (answer.remark or ""), answer
            return answer.code == 0

        assert await is_taken(at_listener, "%LMQ%own")
        await cluster.migrate(0, "broker1")
        for client in (at_listener, at_broker):
            assert await is_taken(client, "%LMQ%own")
            assert not await is_taken(client, "%LMQ%other")
        nobody.account = None
        assert (await nobody.send("T", b"x", queue_id=1)).code == ResponseCode.NO_PERMISSION

        assert (await at_listener.send("T", b"x", queue_id=1)).code == 0
        (message,) = await at_listener.messages("T", queue_id=1, consumer_group="g")
        back = ConsumerSendMsgBack(offset=message.log_position, group="g", delay_level=-1)
        answer = await at_listener.call(Code.CONSUMER_SEND_MSG_BACK, back.to_fields())
        assert answer.code == 0, answer.remark
        answer = await nobody.call(Code.CONSUMER_SEND_MSG_BACK, back.to_fields())
        assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("checks_policies", [True, False])
async def test_who_has_not_signed_speaks_for_no_server(
    tmp_path: Path, *, checks_policies: bool
) -> None:
    """Nor where a code is open to all, and whether or not policies are checked."""
    settings = {"authentication_whitelist": "28", "authorization_whitelist": "28"}
    changes = {"authorization_enabled": checks_policies}
    async with open_test_broker(tmp_path, **{**SETTINGS, **settings, **changes}) as broker:
        nobody, fields = broker.connect(account=None), {"lanemqBornHost": "0a0000010000162e"}
        assert (await nobody.call(Code.GET_BROKER_RUNTIME_INFO)).code == 0
        answer = await nobody.call(Code.GET_BROKER_RUNTIME_INFO, fields)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "lanemqBornHost" in (answer.remark or "")
        chief = broker.connect(account=CHIEF)
        assert (await chief.call(Code.GET_BROKER_RUNTIME_INFO, fields)).code == 0


@pytest.mark.parametrize(
    ("fields", "info", "remark"),
    [
        ({"username": " "}, UserInfo(None, "secret"), "The username is blank"),
        ({"username": "clerk"}, UserInfo(None, "secret"), "The user is existed"),
        ({"username": "new"}, UserInfo(None, " "), "password can not be blank"),
    ],
)
async def test_users_that_cannot_be_made(
    broker: TestBroker, fields: dict[str, str], info: UserInfo, remark: str
) -> None:
    answer = await broker.connect(account=CHIEF).call(Code.AUTH_CREATE_USER, fields, info.encode())
    assert answer.code != 0
    assert answer.remark == remark


@pytest.mark.parametrize(
    ("entry", "remark"),
    [
        (PolicyEntryInfo("Nothing:T", ("Pub",), None, "Allow"), "The resource is null."),
        (PolicyEntryInfo("Topic:a*b", ("Pub",), None, "Allow"), "The resource is null."),
        (PolicyEntryInfo("Group:a*b*", ("Pub",), None, "Allow"), "The resource is null."),
        (PolicyEntryInfo("Topic:**", ("Pub",), None, "Allow"), "The resource is null."),
        (
            PolicyEntryInfo("any:T", ("Pub",), None, "Deny"),
            "The resource is invalid: Any has no name: write Topic:T or Group:T, or * for all",
        ),
        (PolicyEntryInfo("Topic:T", (), None, "Allow"), "The actions is empty."),
        (PolicyEntryInfo("Topic:T", ("Any",), None, "Allow"), "The actions can not be Any."),
        (PolicyEntryInfo("Topic:T", ("Pub",), ("here",), "Allow"), "The source ip is invalid."),
        (PolicyEntryInfo("Topic:T", ("Pub",), None, "Maybe"), "The decision is null or illegal."),
    ],
)
async def test_policies_that_cannot_be_made(
    broker: TestBroker, entry: PolicyEntryInfo, remark: str
) -> None:
    body = AclInfo("User:clerk", (PolicyInfo("Custom", (entry,)),)).encode()
    chief = broker.connect(account=CHIEF)
    answer = await chief.call(Code.AUTH_CREATE_ACL, {"subject": "User:clerk"}, body)
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, remark)
    answer = await permit(chief, "Topic:T", "Pub", user="nobody")
    assert answer.remark == "The subject of User:nobody is not exist."


@pytest.mark.parametrize(
    ("resource", "networks", "remark"),
    [
        ("Topic:Orders ", None, "no topic is called 'Orders '"),
        ("Topic: Orders*", None, "no topic is called ' Orders'"),
        ("Topic:Orders,Bills", None, "no topic is called 'Orders,Bills'"),
        ("Topic:" + "x" * 256, None, "no topic has a name of 256 characters"),
        ("Topic:%LQ%0%Orders", None, "no topic is called '%LQ%0%Orders'"),
        ("Topic:%LQ%*", None, "no topic is called '%LQ%'"),
        ("Topic:%STAGE%shop", None, "no topic is called '%STAGE%shop'"),
        ("Topic:%RETRY%shop", None, "a retry topic is its group's: name Group:shop"),
        ("Group:shop ", None, "no group is called 'shop '"),
        ("Group:shop\n*", None, "no group is called 'shop\\n'"),
        ("Group:%RETRY%shop", None, "name the group without the prefix"),
        ("Group:%DLQ%shop", None, "name the group without the prefix"),
        ("Topic:Orders", ("fe80::1%eth0",), "fe80::1%eth0 has a zone"),
    ],
)
async def test_policies_that_could_never_count_are_refused(
    broker: TestBroker, resource: str, networks: tuple[str, ...] | None, remark: str
) -> None:
    chief = broker.connect(account=CHIEF)
    entry = PolicyEntryInfo(resource, ("Pub",), networks, "Deny")
    body = AclInfo("User:clerk", (PolicyInfo("Custom", (entry,)),)).encode()
    for code in (Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL):
        answer = await chief.call(code, {"subject": "User:clerk"}, body)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert remark in (answer.remark or "")


@pytest.mark.parametrize(
    "resource",
    [
        "*",
        "Topic:*",
        "Group:*",
        "Cluster:*",
        "Topic:%DLQ%shop",
        "Topic:broker.example_REPLY_TOPIC",
        "Topic:my cluster_REPLY_TOPIC",
        "Topic:broker-1.example",
        "Topic:%LMQ%any/name",
        "Topic:%KV%shop/jobs/*",
        "Topic:%KV%*",
        "Topic:ns%Orders*",
        "Group:anyone's",
        "Group:%STAGE%shop",
    ],
)
def test_names_that_something_may_have_are_taken(resource: str) -> None:
    ((_, entry),) = entries_of(
        (PolicyInfo("Custom", (PolicyEntryInfo(resource, ("Pub",), ("::/0",), "Deny"),)),)
    )
    assert never_matched(entry) is None


@pytest.mark.parametrize("resource", ["*", "Any", "any:", "ANY:*"])
def test_everything_has_one_name(resource: str) -> None:
    ((_, made),) = entries_of(
        (PolicyInfo("Custom", (PolicyEntryInfo(resource, ("Pub",), None, "Deny"),)),)
    )
    assert made.resource == EVERYTHING
    assert made.resource.key == "*"


async def test_a_policy_that_cannot_be_is_named_at_the_start(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, **SETTINGS) as broker:
        chief = broker.connect(account=CHIEF)
        await create_user(chief, *CLERK)
        await permit(chief, "*", "Pub")
    path = tmp_path / "config" / "users.json"
    path.write_text(path.read_text().replace('"*"', '"Any:T"'))
    with pytest.raises(ValueError, match=r"users\.json, policies of User:clerk: .*Any has no name"):
        users_of(BrokerConfig(store_path_root_dir=tmp_path, **SETTINGS))


async def test_users_and_policies_are_shown_and_taken_back(broker: TestBroker) -> None:
    chief = broker.connect(account=CHIEF)
    await permit(chief, "Topic:T", "Pub", networks=("10.0.0.0/8",))
    await permit(chief, "Group:g", "Sub")
    listed = json.loads((await chief.call(Code.AUTH_LIST_USER, {"filter": "l"})).body)
    assert listed == [
        {"username": "clerk", "password": "of-clerk", "userType": "Normal", "userStatus": "enable"}
    ]
    shown = AclInfo.decode((await chief.call(Code.AUTH_GET_ACL, {"subject": "User:clerk"})).body)
    assert shown.policies[0].policy_type == "Custom"
    assert shown.policies[0].entries == (
        PolicyEntryInfo("Topic:T", ("Pub",), ("10.0.0.0/8",), "Allow"),
        PolicyEntryInfo("Group:g", ("Sub",), None, "Allow"),
    )
    found = json.loads((await chief.call(Code.AUTH_LIST_ACL, {"resourceFilter": "Group"})).body)
    assert [one["policies"][0]["entries"][0]["resource"] for one in found] == ["Group:g"]
    fields = {"subject": "User:clerk", "policyType": "Custom", "resource": "Topic:T"}
    assert (await chief.call(Code.AUTH_DELETE_ACL, fields)).code == 0
    assert (await broker.connect(account=CLERK).send("T")).code == ResponseCode.NO_PERMISSION
    assert (await chief.call(Code.AUTH_DELETE_ACL, {"subject": "User:clerk"})).code == 0
    answer = await chief.call(Code.AUTH_DELETE_ACL, {"subject": "User:clerk"})
    assert answer.remark == "The acl is not exist."
    assert not (await chief.call(Code.AUTH_GET_ACL, {"subject": "User:clerk"})).body


async def test_users_and_policies_outlive_a_restart_in_a_file_for_the_broker_alone(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path, **SETTINGS) as broker:
        chief = broker.connect(account=CHIEF)
        await create_user(chief, *CLERK)
        await permit(chief, "Topic:T", "Pub", networks=("127.0.0.0/8",))
        body = UserInfo(None, "changed").encode()
        await chief.call(Code.AUTH_UPDATE_USER, {"username": "chief"}, body)
    path = tmp_path / "config" / "users.json"
    assert path.stat().st_mode & 0o777 == 0o600
    async with open_test_broker(tmp_path, **SETTINGS) as broker:
        assert (await broker.connect(account=CLERK).send("T")).code == 0
        answer = await broker.connect(account=CHIEF).send("T")
        assert answer.remark == "check signature failed.", "the first user is not made again"
        assert (await broker.connect(account=("chief", "changed")).send("T")).code == 0
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"users\.json is damaged"):
        users_of(BrokerConfig(store_path_root_dir=tmp_path, **SETTINGS))


def test_settings_that_would_let_in_anyone_or_nobody_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        BrokerConfig(acl_enable=True, rocketmq_home=tmp_path, authentication_enabled=True)
    with pytest.raises(ValueError, match="authenticationEnabled"):
        BrokerConfig(authorization_enabled=True)
    with pytest.raises(ValueError, match="authenticationWhitelist is 'x'"):
        BrokerConfig(authentication_whitelist="x")
    with pytest.raises(ValueError, match="initAuthenticationUser must be") as caught:
        BrokerConfig(init_authentication_user='{"username":"hush-hush"}')
    assert "hush" not in str(caught.value)


def test_without_a_first_user_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no users: set initAuthenticationUser"):
        users_of(BrokerConfig(store_path_root_dir=tmp_path, authentication_enabled=True))
