"""Account files are read as Apache's brokers read them, and what is wrong in one is named."""

import errno
import logging
import os
from pathlib import Path

import pytest
from trio.testing import MockClock

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.acl import AccountFiles
from lanemq.proxy.acl._accounts import DENY, PUB, SUB
from lanemq.proxy.acl._control import AccountControl
from lanemq.proxy.acl._reading import AccountFile, read_account_file
from lanemq.testkit.proxy.brokers import signed
from lanemq.wire.frame import request

# The file that Apache 4.9 ships.
SHIPPED = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
ONE = "accounts:\n  - accessKey: {}\n    secretKey: 12345678\n"
SECRET = "hush-hush"


def read(text: str | bytes) -> AccountFile:
    return read_account_file(text.encode() if isinstance(text, str) else text, source="acl.yml")


def test_the_file_that_apache_ships_is_read() -> None:
    file = read(SHIPPED)
    clerk, chief = file.accounts
    assert (clerk.access_key, clerk.is_admin) == ("RocketMQ", False)
    assert clerk.signatures.is_signed(request(10, signed({}, b"", "RocketMQ", "12345678")))
    assert (clerk.default_topic_permission, clerk.default_group_permission) == (DENY, SUB)
    assert clerk.permissions == {
        "topicA": DENY,
        "topicB": PUB | SUB,
        "topicC": SUB,
        "%RETRY%groupA": DENY,
        "%RETRY%groupB": PUB | SUB,
        "%RETRY%groupC": SUB,
    }
    assert not clerk.white_list
    assert chief.is_admin
    assert chief.permissions == {}
    assert chief.white_list.admits("192.168.1.7")
    assert len(file.white_list) == 2
    assert file.warnings == ()


@pytest.mark.parametrize(
    "secret", ["01234567", "1234567890123", "1_000_000", "123:45:59", "1e100000"]
)
def test_secrets_of_digits_are_what_stands_there(secret: str) -> None:
    (account,) = read(f"accounts:\n  - accessKey: clerk12\n    secretKey: {secret}\n").accounts
    assert account.signatures.is_signed(request(10, signed({}, b"", "clerk12", secret)))


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "accounts:\n", "accounts: []\n"])
def test_an_empty_file_has_no_accounts(text: str) -> None:
    assert read(text) == AccountFile((), (), ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"accounts:\n  - accessKey: clerk12\n    secretKey: *{SECRET}\n", "line 3, secretKey: "),
        (f"accounts:\n  - accessKey: clerk12\n    secretKey: !{SECRET}!x\n", "line 3, secretKey: "),
        (f"accounts:\n  - accessKey: clerk12\n    secretKey: a: {SECRET}\n", "line 3, secretKey: "),
        (f'accounts:\n  - accessKey: clerk12\n    secretKey: "{SECRET}\n', "line 4, secretKey: "),
        (
            f"accounts:\n  - accessKey: clerk12\n    secretKey:\n      - {SECRET}\n",
            "line 4, secretKey: ",
        ),
        ("accounts:\n\t- accessKey: clerk12\n", "line 2, accessKey: "),
        (b"accounts:\n  - accessKey: \xff\xfe\n", "line 2, accessKey: "),
        ("accounts:\n  - accessKey: clerk12\n", "line 2, secretKey: an account needs one"),
        ("accounts:\n  - secretKey: 12345678\n", "line 2, accessKey: an account needs one"),
        (ONE.format("clerk1"), "line 2, accessKey: an account needs one of at least 7"),
        (
            "accounts:\n  - accessKey: clerk12\n    secretKey: hush12\n",
            "line 3, secretKey: an account needs one of at least 7",
        ),
        (ONE.format("clerk12") + "    admin: perhaps\n", "line 4, admin: must be true or false"),
        (ONE.format("clerk12") + "    topicPerms: T=PUB\n", "line 4, topicPerms: not a list"),
        (
            ONE.format("clerk12") + "    topicPerms:\n      - T\n",
            "line 5, topicPerms: 'T' must be name=permission",
        ),
        (
            ONE.format("clerk12") + "    groupPerms:\n      - g=SUB=PUB\n",
            "line 5, groupPerms: 'g=SUB=PUB' must be name=permission",
        ),
        (
            ONE.format("clerk12") + "    whiteRemoteAddress: 10.0.0\n",
            "line 4, whiteRemoteAddress: '10.0.0' is not an IP address",
        ),
        (
            "globalWhiteRemoteAddresses:\n  - 10.0.0.1\n  - nowhere\n",
            "line 3, globalWhiteRemoteAddresses: 'nowhere' is not an IP address",
        ),
        (
            "globalWhiteRemoteAddresses: 10.0.0.1\n",
            "line 1, globalWhiteRemoteAddresses: not a list",
        ),
        ("- accounts\n", "line 1: not keys with values"),
        ("accounts:\n  - clerk12\n", "line 2, accounts: not keys with values"),
        ("[" * 400, "line 1: "),
    ],
)
def test_what_is_wrong_is_named_with_line_and_key_and_without_secrets(
    text: str | bytes, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(f"acl.yml, {problem}"), caught.value
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "warning"),
    [
        ("    topicPerm:\n", "line 4, topicPerm: not a key that is known here: "),
        ("    defaultTopicPerm: ALL\n", "line 4, defaultTopicPerm: 'ALL' is not one of DENY, PUB"),
        ("    topicPerms:\n      - T=pub\n", "line 5, topicPerms: 'pub' is not one of DENY, PUB"),
        ("    admin: true\n    admin: false\n", "line 5, admin: stands here twice"),
    ],
)
def test_what_can_hardly_be_meant_is_warned_of_and_gives_nothing(more: str, warning: str) -> None:
    file = read(ONE.format("clerk12") + more)
    (told,) = file.warnings
    assert told.startswith(f"acl.yml, {warning}"), told
    (account,) = file.accounts
    assert not account.is_admin
    assert account.default_topic_permission == DENY
    assert set(account.permissions.values()) <= {DENY}


@pytest.mark.parametrize(
    ("key", "name", "why"),
    [
        ("topicPerms", "Secret*", "no topic is called 'Secret*'"),
        ("topicPerms", "*", "no topic is called '*'"),
        ("topicPerms", "two names", "no topic is called 'two names'"),
        ("topicPerms", "%LQ%0%T", "no topic is called '%LQ%0%T'"),
        ("topicPerms", "%BROKER_STAGE%shop", "no topic is called '%BROKER_STAGE%shop'"),
        ("groupPerms", "shop*", "no name has a *"),
        ("groupPerms", "two names", "no group is called 'two names'"),
        ("groupPerms", "%RETRY%shop", "'%RETRY%shop' is the name of a topic"),
    ],
)
def test_names_that_nothing_has_are_warned_of(key: str, name: str, why: str) -> None:
    (told,) = read(ONE.format("clerk12") + f"    {key}: ['T=PUB', '{name}=DENY']\n").warnings
    assert told.startswith(f"acl.yml, line 4, {key}: {why}"), told


@pytest.mark.parametrize(
    "text",
    [
        "topicPerms: ['%RETRY%shop=SUB', '%KV%shop/jobs/*=SUB', 'a.b_REPLY_TOPIC=PUB']",
        'groupPerms: ["anyone\'s=SUB", "%STAGE%shop=SUB"]',
    ],
)
def test_names_that_something_may_have_are_not_warned_of(text: str) -> None:
    assert read(ONE.format("clerk12") + f"    {text}\n").warnings == ()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_all_files_count_and_the_first_account_of_a_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "conf" / "plain_acl.yml", ONE.format("clerk12") + "    admin: true\n")
    write(tmp_path / "conf" / "acl" / "b.yaml", ONE.format("clerk34"))
    write(tmp_path / "conf" / "acl" / "deep" / "c.yml", "globalWhiteRemoteAddresses: [10.0.0.1]")
    write(tmp_path / "conf" / "acl" / "a.yml", ONE.format("clerk12"))
    write(tmp_path / "conf" / "acl" / "notes.txt", "not: [read")
    write(tmp_path / "conf" / "acl" / "..2026" / "old.yml", "not: [read")
    with caplog.at_level(logging.WARNING):
        accounts = AccountFiles(tmp_path).read()
    assert sorted(accounts.by_key) == ["clerk12", "clerk34"]
    assert not accounts.by_key["clerk12"].is_admin
    assert accounts.white_list.admits("10.0.0.1")
    (told,) = caplog.messages
    assert told.startswith(f"{tmp_path}/conf/plain_acl.yml: accessKey clerk12 stands in another")


def test_without_a_file_or_an_account_nobody_could_be_let_in(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neither .*plain_acl\.yml nor a \.yml file in .*acl"):
        AccountFiles(tmp_path).read()
    write(tmp_path / "conf" / "plain_acl.yml", "accounts: []\n")
    with pytest.raises(ConfigError, match="nobody would be let in"):
        AccountFiles(tmp_path).read()


def test_links_count_wherever_they_lead(tmp_path: Path) -> None:
    write(tmp_path / "mounted" / "team.yml", ONE.format("clerk12"))
    write(tmp_path / "other.yml", ONE.format("clerk34"))
    folder = tmp_path / "conf" / "acl"
    folder.mkdir(parents=True)
    (folder / "team").symlink_to(tmp_path / "mounted")
    (folder / "one.yml").symlink_to(tmp_path / "other.yml")
    (tmp_path / "mounted" / "round").symlink_to(folder)
    assert sorted(AccountFiles(tmp_path).read().by_key) == ["clerk12", "clerk34"]


@pytest.mark.parametrize("where", ["acl/own.yml", "plain_acl.yml", "acl"])
async def test_a_file_that_cannot_be_looked_at_is_not_one_that_is_gone(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Its accounts would be locked out, and another file might give them more."""
    write(tmp_path / "conf" / "plain_acl.yml", ONE.format("clerk12") + "    admin: true\n")
    write(tmp_path / "conf" / "acl" / "own.yml", ONE.format("clerk12"))
    control = AccountControl(AccountFiles(tmp_path))
    caplog.clear()
    place = tmp_path / "conf" / where
    place.rename(tmp_path / "away")
    place.symlink_to(tmp_path / "nowhere")
    for _ in range(3):
        await control.look()
    assert not control.accounts.by_key["clerk12"].is_admin
    (told,) = caplog.messages
    assert str(place) in told
    assert "the accounts read before stay in force" in told
    with pytest.raises(ConfigError, match=where):
        AccountFiles(tmp_path).read()
    place.unlink()
    (tmp_path / "away").rename(place)
    await control.look()
    assert not control.accounts.by_key["clerk12"].is_admin
    (tmp_path / "conf" / "acl" / "own.yml").unlink()
    await control.look()
    assert control.accounts.by_key["clerk12"].is_admin, "the control: one that is gone"


def test_a_directory_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "conf" / "plain_acl.yml", ONE.format("clerk12"))
    write(tmp_path / "conf" / "acl" / "own.yml", ONE.format("clerk34"))

    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", denied)  # the mode does not hold for root
    with pytest.raises(ConfigError, match="conf/acl cannot be read: Permission denied"):
        AccountFiles(tmp_path).read()


def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "conf" / "acl").mkdir(parents=True)
    os.mkfifo(tmp_path / "conf" / "acl" / "pipe.yml")
    with pytest.raises(ConfigError, match=r"pipe\.yml is no file"):
        AccountFiles(tmp_path).read()
