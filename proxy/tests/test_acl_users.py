"""Users and policies as 5.x has them: who is let in, what they may, and how tools change that."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lanemq.proxy.acl.users._policies import (
    DECISIONS_REMEMBERED,
    Decider,
    Entry,
    PolicyType,
    decision,
)
from lanemq.proxy.acl.users._resources import (
    NAME_MAX,
    Action,
    Kind,
    Need,
    Resource,
    group_need,
    topic_need,
)
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.process._run import users_of
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, pull_header
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from lanemq.wire.frame import Frame

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


def test_a_retry_topic_is_its_group() -> None:
    assert topic_need("%RETRY%g", Action.SUB) == group_need("g", Action.SUB)
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


async def test_disabled_users_are_not_let_in(broker: TestBroker) -> None:
    chief = broker.connect(account=CHIEF)
    body = UserInfo(None, None, None, "disable").encode()
    assert (await chief.call(Code.AUTH_UPDATE_USER, {"username": "clerk"}, body)).code == 0
    answer = await broker.connect(account=CLERK).call(Code.GET_BROKER_RUNTIME_INFO)
    assert answer.remark == "User:clerk is disabled."
    body = UserInfo(None, "of-clerk-2", None, "enable").encode()
    assert (await chief.call(Code.AUTH_UPDATE_USER, {"username": "clerk"}, body)).code == 0
    old, new = broker.connect(account=CLERK), broker.connect(account=("clerk", "of-clerk-2"))
    assert (await old.call(Code.GET_BROKER_RUNTIME_INFO)).remark == "check signature failed."
    assert (await new.call(Code.GET_BROKER_RUNTIME_INFO)).code == 0


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
