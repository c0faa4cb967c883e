"""Members of producer groups: those whom rules name, or everyone where no rule names the group."""

from pathlib import Path

import pytest

from lanemq.testkit.proxy.accounts import (
    ACCOUNTS,
    CHIEF,
    KINDS,
    OWNER,
    WEAK,
    open_guarded_broker,
)
from lanemq.testkit.proxy.brokers import Client
from lanemq.wire import RequestCode as Code
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo


async def put_policy(
    chief: Client,
    user: str,
    resource: str,
    decision: str,
    *,
    actions: tuple[str, ...] = ("Pub", "Sub"),
    networks: tuple[str, ...] | None = None,
) -> None:
    entry = PolicyEntryInfo(resource, actions, networks, decision)
    body = AclInfo(f"User:{user}", (PolicyInfo("Custom", (entry,)),)).encode()
    answer = await chief.call(Code.AUTH_CREATE_ACL, {"subject": f"User:{user}"}, body)
    assert answer.code == 0, answer.remark


async def joins(client: Client, group: str) -> bool:
    answer = await client.heartbeat(f"{client.account}", producers=(group,))
    assert answer.code == 0 or "permission" in (answer.remark or ""), answer
    return answer.code == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_group_in_a_denial_is_closed(tmp_path: Path, kind: str) -> None:
    """It is to everyone who has no right to it, and not to the one who is denied alone."""
    text = ACCOUNTS.replace("groupPerms: [mine=PUB|SUB]", "groupPerms: [mine=SUB, closed=DENY]")
    async with open_guarded_broker(tmp_path, kind, accounts=text) as broker:
        chief = broker.connect(account=CHIEF)
        if kind == "5.x":
            await put_policy(chief, WEAK[0], "Group:closed", "Deny")
        for account in (WEAK, OWNER):
            assert not await joins(broker.connect(account=account), "closed")
            assert await joins(broker.connect(account=account), "another")
        assert await joins(chief, "closed")


@pytest.mark.parametrize(
    ("resource", "actions", "networks"),
    [
        ("Group:clo*", ("Pub", "Sub"), None),
        ("Group:closed", ("Get",), None),
        ("Group:closed", ("All",), ("10.0.0.0/8",)),
    ],
)
async def test_any_denial_that_names_a_group_closes_it(
    tmp_path: Path, resource: str, actions: tuple[str, ...], networks: tuple[str, ...] | None
) -> None:
    async with open_guarded_broker(tmp_path, "5.x") as broker:
        chief, owner = broker.connect(account=CHIEF), broker.connect(account=OWNER)
        assert await joins(owner, "closed")
        await put_policy(chief, WEAK[0], resource, "Deny", actions=actions, networks=networks)
        assert not await joins(owner, "closed")
        await put_policy(chief, OWNER[0], "Group:closed", "Allow")
        assert await joins(owner, "closed")


@pytest.mark.parametrize("resource", ["*", "Group:*"])
async def test_a_denial_of_all_groups_names_none(tmp_path: Path, resource: str) -> None:
    async with open_guarded_broker(tmp_path, "5.x") as broker:
        chief, weak = broker.connect(account=CHIEF), broker.connect(account=WEAK)
        await put_policy(chief, WEAK[0], resource, "Deny")
        assert not await joins(weak, "another")
        assert await joins(broker.connect(account=OWNER), "another")


async def test_a_right_to_send_from_elsewhere_is_none_here(tmp_path: Path) -> None:
    """Open groups are for those who may send to some topic from where they are."""
    async with open_guarded_broker(tmp_path, "5.x") as broker:
        chief, here = broker.connect(account=CHIEF), broker.connect(account=WEAK)
        there = broker.connect("10.0.0.9", account=WEAK)
        await put_policy(chief, WEAK[0], "Topic:mine", "Allow", networks=("10.0.0.0/8",))
        assert not await joins(here, "another")
        assert await joins(there, "another")
