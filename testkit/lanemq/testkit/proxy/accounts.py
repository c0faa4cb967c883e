"""Brokers with accounts of both kinds: an administrator, an owner, and a user with few rights."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from lanemq.wire import RequestCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

from .brokers import Client, TestBroker, open_test_broker

CHIEF: Final = ("chief12", "secret-of-chief")
OWNER: Final = ("owner12", "secret-of-owner")
"""May use the topic and the groups of ``OWNED_GROUPS``."""
WEAK: Final = ("weak1234", "secret-of-weak")
"""May use the topic ``mine`` and the group ``mine``."""
BARE: Final = ("bare1234", "secret-of-bare")
"""May use nothing."""
OWNED_GROUPS: Final = ("victim", "victim-tx")
KINDS: Final = ("4.x", "5.x")

ACCOUNTS: Final = """
accounts:
  - {accessKey: chief12, secretKey: secret-of-chief, admin: true}
  - accessKey: owner12
    secretKey: secret-of-owner
    topicPerms: [victim=PUB|SUB]
    groupPerms: [victim=PUB|SUB, victim-tx=PUB|SUB]
  - accessKey: weak1234
    secretKey: secret-of-weak
    topicPerms: [mine=PUB|SUB]
    groupPerms: [mine=PUB|SUB]
  - {accessKey: bare1234, secretKey: secret-of-bare}
"""


def shared_accounts(home: Path) -> dict[str, Any]:
    """Return the settings of brokers with the files of 4.x below ``home``, which ask each other by
    the account ``CHIEF``."""
    inner = '{{"accessKey":"{}","secretKey":"{}"}}'.format(*CHIEF)
    return {
        "acl_enable": True,
        "rocketmq_home": home,
        "inner_client_authentication_credentials": inner,
    }


@asynccontextmanager
async def open_guarded_broker(
    root: Path, kind: str, *, accounts: str = ACCOUNTS, **settings: object
) -> AsyncIterator[TestBroker]:
    """Run a broker with the accounts above, as files of 4.x or as users of 5.x."""
    if kind == "4.x":
        path = root / "conf" / "plain_acl.yml"
        path.parent.mkdir()
        path.write_text(accounts)
        settings |= {"acl_enable": True, "rocketmq_home": root}
    else:
        settings |= {
            "authentication_enabled": True,
            "authorization_enabled": True,
            "init_authentication_user": '{{"username":"{}","password":"{}"}}'.format(*CHIEF),
        }
    async with open_test_broker(root / "store", **settings) as broker:  # type: ignore[arg-type]
        if kind == "5.x":
            await make_users(broker.connect(account=CHIEF))
        yield broker


async def make_users(chief: Client) -> None:
    """Make the other users of 5.x, with the same rights as in ``ACCOUNTS``."""
    for name, password in (OWNER, WEAK, BARE):
        body = UserInfo(None, password, None).encode()
        answer = await chief.call(RequestCode.AUTH_CREATE_USER, {"username": name}, body)
        assert answer.code == 0, answer.remark
    for user, resources in (
        (OWNER, ("Topic:victim", *(f"Group:{group}" for group in OWNED_GROUPS))),
        (WEAK, ("Topic:mine", "Group:mine")),
    ):
        subject = f"User:{user[0]}"
        entries = tuple(
            PolicyEntryInfo(one, ("Pub", "Sub", "Get", "Update"), None, "Allow")
            for one in resources
        )
        body = AclInfo(subject, (PolicyInfo("Custom", entries),)).encode()
        answer = await chief.call(RequestCode.AUTH_CREATE_ACL, {"subject": subject}, body)
        assert answer.code == 0, answer.remark
