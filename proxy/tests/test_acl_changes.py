"""Tools change the accounts of a running broker: at once, for administrators, and never halfway."""

import json
import logging
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml
from trio.testing import MockClock

from lanemq.proxy.acl._control import LOOK_S
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame

CHIEF = ("chief12", "secret-of-chief")
CLERK = ("clerk12", "secret-of-clerk")
NEW = ("newcomer", "secret-of-newcomer")
REMARK = "org.apache.rocketmq.acl.common.AclException: {}"
ACCOUNTS = """# a remark
accounts:
  - accessKey: clerk12
    secretKey: secret-of-clerk
    defaultGroupPerm: SUB
    topicPerms: [T=PUB|SUB]
  - accessKey: chief12
    secretKey: secret-of-chief
    admin: true
  - accessKey: digits12
    secretKey: 01234567
"""
PUT_FAILED, DELETE_FAILED, WHITE_FAILED = 209, 210, 211


def main_file(home: Path) -> Path:
    return home / "conf" / "plain_acl.yml"


def more_file(home: Path) -> Path:
    return home / "conf" / "acl" / "more.yml"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def accounts_in(path: Path) -> dict[str, Any]:
    found = yaml.load(path.read_bytes(), Loader=yaml.BaseLoader)["accounts"]
    return {one.pop("accessKey"): one for one in found}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    write(main_file(tmp_path), ACCOUNTS)
    async with open_test_broker(
        tmp_path / "store",
        acl_enable=True,
        rocketmq_home=tmp_path,
        now_ms=lambda: 1_700_000_000_000,
    ) as broker:
        yield broker


async def put(broker: TestBroker, account: tuple[str, str], **fields: str) -> Frame:
    named = {"accessKey": account[0], "secretKey": account[1], "admin": "false", **fields}
    return await broker.connect(account=CHIEF).call(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, named)


async def delete(broker: TestBroker, key: str) -> Frame:
    return await broker.connect(account=CHIEF).call(
        RequestCode.DELETE_ACL_CONFIG, {"accessKey": key}
    )


async def set_white(broker: TestBroker, addresses: str, path: Path | None = None) -> Frame:
    fields = {"globalWhiteAddrs": addresses, **({"aclFileFullPath": str(path)} if path else {})}
    return await broker.connect(account=CHIEF).call(
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields
    )


async def test_a_new_account_counts_at_once_and_is_in_the_main_file(
    broker: TestBroker, tmp_path: Path
) -> None:
    answer = await put(
        broker, NEW, topicPerms="T=PUB|SUB,U=SUB", groupPerms="g=SUB", defaultTopicPerm="DENY"
    )
    assert (answer.code, answer.remark) == (0, None)
    assert (await broker.connect(account=NEW).send("T")).code == 0
    assert (await broker.connect(account=NEW).send("U")).code == ResponseCode.SYSTEM_ERROR
    assert (await broker.connect(account=CLERK).send("T")).code == 0
    assert accounts_in(main_file(tmp_path))["newcomer"] == {
        "secretKey": "secret-of-newcomer",
        "admin": "false",
        "defaultTopicPerm": "DENY",
        "topicPerms": ["T=PUB|SUB", "U=SUB"],
        "groupPerms": ["g=SUB"],
    }


async def test_a_changed_account_keeps_what_the_request_does_not_name(
    broker: TestBroker, tmp_path: Path
) -> None:
    before = accounts_in(main_file(tmp_path))
    changed = ("clerk12", "another-secret")
    assert (await put(broker, changed, defaultTopicPerm="SUB")).code == 0
    assert (await broker.connect(account=CLERK).send("T")).remark == REMARK.format(
        "Check signature failed for accessKey=clerk12"
    )
    assert (await broker.connect(account=changed).send("T")).code == 0
    after = accounts_in(main_file(tmp_path))
    assert list(after) == ["chief12", "digits12", "clerk12"]  # as at Apache's: the last one now
    assert after["clerk12"] == {
        **before["clerk12"],
        "secretKey": "another-secret",
        "admin": "false",
        "defaultTopicPerm": "SUB",
    }
    assert after["chief12"] == before["chief12"]
    assert after["digits12"] == {"secretKey": "01234567"}  # as it was written
    assert (await broker.connect(account=("digits12", "01234567")).call(4711)).code == 3


@pytest.mark.parametrize(
    "secret", ["01234567", "1e100000", "12:30:45", "*secret", "a: b # c", "'\"x\ny' "]
)
async def test_any_secret_is_written_so_that_it_is_read_as_a_text(
    broker: TestBroker, tmp_path: Path, secret: str
) -> None:
    assert (await put(broker, ("newcomer", secret))).code == 0
    (account,) = (
        one
        for one in yaml.safe_load(main_file(tmp_path).read_bytes())["accounts"]
        if one["accessKey"] == "newcomer"
    )
    assert account["secretKey"] == secret
    assert (await broker.connect(account=("newcomer", secret)).call(4711)).code == 3


async def test_an_account_changes_where_it_stands_and_every_one_of_its_name_is_deleted(
    broker: TestBroker, tmp_path: Path, autojump_clock: MockClock
) -> None:
    write(
        more_file(tmp_path),
        "accounts:\n"
        "  - {accessKey: clerk12, secretKey: secret-of-clerk, topicPerms: [T=PUB]}\n"
        "  - {accessKey: clerk12, secretKey: secret-of-twin}\n",
    )
    await trio.sleep(LOOK_S + 1)
    main = main_file(tmp_path).read_bytes()
    assert (await put(broker, CLERK, topicPerms="T=DENY")).code == 0
    assert main_file(tmp_path).read_bytes() == main
    assert accounts_in(more_file(tmp_path))["clerk12"]["topicPerms"] == ["T=DENY"]
    assert (await broker.connect(account=CLERK).send("T")).code == ResponseCode.SYSTEM_ERROR
    assert (await delete(broker, "clerk12")).code == 0
    await trio.sleep(LOOK_S + 1)
    answer = await broker.connect(account=CLERK).send("T")
    assert answer.remark == REMARK.format("No acl config for clerk12")
    assert list(accounts_in(main_file(tmp_path))) == ["chief12", "digits12"]
    answer = await delete(broker, "clerk12")
    assert (answer.code, answer.remark) == (
        DELETE_FAILED,
        "The accesskey[clerk12] corresponding to accessConfig has been deleted failed.",
    )


async def test_white_addresses_are_replaced_in_the_file_that_is_named(
    broker: TestBroker, tmp_path: Path
) -> None:
    stranger = broker.connect("10.7.1.1")
    assert (await stranger.send("T")).code == ResponseCode.SYSTEM_ERROR
    assert (await set_white(broker, "10.7.*.*,10.8.0.1")).code == 0
    assert (await stranger.send("T")).code == 0
    write(more_file(tmp_path), "globalWhiteRemoteAddresses: [10.9.0.1]\n")
    assert (await set_white(broker, "10.9.0.2", more_file(tmp_path))).code == 0
    assert (await broker.connect("10.9.0.2").send("T")).code == 0
    assert (await broker.connect("10.9.0.1").send("T")).code == ResponseCode.SYSTEM_ERROR
    loaded = yaml.safe_load(main_file(tmp_path).read_bytes())
    assert loaded["globalWhiteRemoteAddresses"] == ["10.7.*.*", "10.8.0.1"]


async def test_only_files_of_accounts_are_changed(broker: TestBroker, tmp_path: Path) -> None:
    other = tmp_path / "conf" / "broker.yml"
    write(other, "port: 1\n")
    for path in (other, tmp_path / "conf" / "acl" / ".." / "plain_acl.yml", tmp_path / "none.yml"):
        answer = await set_white(broker, "10.7.1.1", path)
        assert (answer.code, answer.remark) == (
            WHITE_FAILED,
            "The globalWhiteAddresses[10.7.1.1] has been updated failed.",
        )
    assert other.read_text() == "port: 1\n"
    assert main_file(tmp_path).read_text() == ACCOUNTS


async def test_what_is_refused_changes_nothing_and_repeats_no_secret(
    broker: TestBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    too_short = (
        "The accessKey={} and secretKey=****** cannot be null and length should longer than 6"
    )
    form = "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
    permissions = "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
    with caplog.at_level(logging.DEBUG):
        refused = [
            (await put(broker, ("newone", "hush-hush")), too_short.format("newone")),
            (await put(broker, ("newcomer", "hush12")), too_short.format("newcomer")),
            (
                await put(broker, NEW, topicPerms="T=PUB,U"),
                f"Parse Resource format error for U.\n{form}",
            ),
            (
                await put(broker, NEW, topicPerms="," * 1000 + "T=PUB"),
                "1001 permissions, at most 1000 are taken at once",
            ),
            (
                await put(broker, NEW, topicPerms="T" + "=" * 1000 + "PUB"),
                "a permission of 1004 characters, at most 1000",
            ),
            (
                await put(broker, NEW, groupPerms="g=pub"),
                f"Parse resource permission error for g=pub.\n{permissions}",
            ),
            (
                await put(broker, NEW, whiteRemoteAddress="10.0.0"),
                "whiteRemoteAddress: '10.0.0' is not an IP address: it has 3 parts, not four",
            ),
        ]
        answer = await set_white(broker, "10.0.0.1,nowhere")
    for told, remark in refused:
        assert (told.code, told.remark) == (PUT_FAILED, remark)
    assert answer.code == WHITE_FAILED
    assert answer.remark == (
        "globalWhiteRemoteAddresses: 'nowhere' is not an IP address: it has 1 parts, not four"
    )
    assert main_file(tmp_path).read_text() == ACCOUNTS
    assert not any("hush" in line or "secret-of" in line for line in caplog.messages)


async def test_changes_are_logged_with_peer_and_account_and_without_secrets(
    broker: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "lanemq"):
        await put(broker, NEW)
        await delete(broker, "newcomer")
    told = [line for line in caplog.messages if "newcomer" in line]
    assert told[0].startswith("account 'newcomer' changed by 127.0.0.1:")
    assert told[1].startswith("account 'newcomer' deleted by 127.0.0.1:")
    assert not any("secret-of" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (50, {"accessKey": "clerk12", "secretKey": "secret-of-clerk", "admin": "true"}),
        (51, {"accessKey": "chief12"}),
        (53, {"globalWhiteAddrs": "*"}),
    ],
)
async def test_only_administrators_change_accounts(
    broker: TestBroker, tmp_path: Path, code: int, fields: dict[str, str]
) -> None:
    answer = await broker.connect(account=CLERK).call(code, fields)
    assert answer.remark == REMARK.format(
        f"Need admin permission for request code={code}, but accessKey=clerk12 is not"
    )
    assert main_file(tmp_path).read_text() == ACCOUNTS


async def test_a_change_that_would_let_in_nobody_is_refused(
    broker: TestBroker, tmp_path: Path
) -> None:
    for key in ("clerk12", "digits12"):
        assert (await delete(broker, key)).code == 0
    before = main_file(tmp_path).read_bytes()
    answer = await delete(broker, "chief12")
    assert answer.code == DELETE_FAILED
    assert answer.remark is not None
    assert answer.remark.endswith("nobody would be let in")
    assert main_file(tmp_path).read_bytes() == before
    assert (await broker.connect(account=CHIEF).call(4711)).code == 3


async def test_a_file_that_somebody_broke_meanwhile_is_not_written_over(
    broker: TestBroker, tmp_path: Path
) -> None:
    broken = "accounts:\n  - accessKey: clerk12\n    secretKey: 'hush\n"
    write(main_file(tmp_path), broken)
    answer = await put(broker, NEW)
    assert answer.code == PUT_FAILED
    assert answer.remark is not None
    assert answer.remark.startswith(f"{main_file(tmp_path)}, line 4, secretKey: ")
    assert "hush" not in answer.remark
    assert main_file(tmp_path).read_text() == broken
    assert (await broker.connect(account=CLERK).send("T")).code == 0


async def test_a_file_keeps_its_mode_and_a_link_stays_one(
    broker: TestBroker, tmp_path: Path
) -> None:
    real = tmp_path / "elsewhere.yml"
    main_file(tmp_path).rename(real)
    real.chmod(0o640)
    main_file(tmp_path).symlink_to(real)
    assert (await put(broker, NEW)).code == 0
    assert main_file(tmp_path).is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "newcomer" in accounts_in(real)
    assert sorted(os.listdir(tmp_path)) == ["conf", "elsewhere.yml", "store"]


async def test_a_main_file_that_is_missing_is_made_for_this_user_alone(tmp_path: Path) -> None:
    write(more_file(tmp_path), ACCOUNTS)
    async with open_test_broker(
        tmp_path / "store", acl_enable=True, rocketmq_home=tmp_path
    ) as broker:
        assert (await put(broker, NEW)).code == 0
        assert list(accounts_in(main_file(tmp_path))) == ["newcomer"]
        assert stat.S_IMODE(main_file(tmp_path).stat().st_mode) == 0o600
        assert (await broker.connect(account=NEW).call(4711)).code == 3


async def test_a_file_that_cannot_be_replaced_is_as_it_was(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "temporary"))

    monkeypatch.setattr("lanemq.proxy.acl._files.os.fsync", full)
    answer = await put(broker, NEW)
    assert (answer.code, answer.remark) == (
        PUT_FAILED,
        "the files of accounts cannot be changed: No space left on device",
    )
    assert main_file(tmp_path).read_text() == ACCOUNTS
    assert (await broker.connect(account=NEW).call(4711)).code == ResponseCode.SYSTEM_ERROR


async def test_versions_count_the_changes_of_each_file(broker: TestBroker, tmp_path: Path) -> None:
    async def versions() -> Frame:
        return await broker.connect(account=CHIEF).call(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)

    changed_ms = main_file(tmp_path).stat().st_mtime_ns // 1_000_000
    answer = await versions()
    assert answer.fields["brokerName"] == "broker-a"
    assert answer.fields["clusterName"] == "DefaultCluster"
    assert answer.fields["brokerAddr"] == str(broker.broker.address)
    assert json.loads(answer.fields["version"]) == {"counter": 0, "timestamp": changed_ms}
    for _ in range(2):
        await put(broker, NEW)
    answer = await versions()
    version = {"counter": 2, "timestamp": 1_700_000_000_000}
    assert json.loads(answer.fields["version"]) == version
    assert json.loads(answer.fields["allAclFileVersion"]) == {str(main_file(tmp_path)): version}
    loaded = yaml.safe_load(main_file(tmp_path).read_bytes())
    assert loaded["dataVersion"] == [version]


async def test_the_request_that_shows_secrets_is_unknown(broker: TestBroker) -> None:
    answer = await broker.connect(account=CHIEF).call(54)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert not answer.body


async def test_a_broker_without_accounts_knows_none_of_these_requests(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path / "store") as broker:
        for code in (50, 51, 52, 53):
            answer = await broker.connect().call(code)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
