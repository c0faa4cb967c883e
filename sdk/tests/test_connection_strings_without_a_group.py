"""Administrators' clients and stores of keys open by connection strings, and their commands."""

import asyncio

import click
import pytest
import trio
from click.testing import CliRunner

from lanemq.sdk import Credentials
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin
from lanemq.sdk.admin.cli.command._access import (
    Access,
    access_options,
    take_access,
    take_name_servers,
)
from lanemq.sdk.aio import admin as aio_admin
from lanemq.sdk.aio import kv as aio_kv
from lanemq.sdk.blocking import admin as blocking_admin
from lanemq.sdk.blocking import kv as blocking_kv
from lanemq.sdk.kv import open_kv_store
from lanemq.sdk.kv.cli import kv
from lanemq.sdk.opening._url import connect_without_group
from lanemq.testing import open_test_server

NONE: dict[str, str] = {}


def test_a_client_without_a_group_takes_hosts_account_and_tls() -> None:
    url = "rocketmq://me:secret@h,i:1/?group=g&retries=7&tls=true"
    servers, credentials, tls = connect_without_group(url, None, None, NONE)
    assert servers == ("h:9876", "i:1")
    assert credentials == Credentials(access_key="me", secret_key="secret")
    assert tls is not None
    ours = Credentials(access_key="a", secret_key="b")
    assert connect_without_group(url, ours, None, NONE)[1] is ours
    assert connect_without_group(None, None, None, {"LANEMQ_URL": "rocketmq://h/"})[0] == (
        "h:9876",
    )
    assert connect_without_group("h:1", None, None, {"LANEMQ_URL": url}) == ("h:1", None, None)
    assert connect_without_group(None, None, None, NONE) == (None, None, None)


def test_every_face_opens_administrators_and_stores_by_a_string(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_test_server() as server:
        url = f"rocketmq://{server.name_servers}/?group=g&tls=false"

        async def on_trio(name_servers: str | None) -> None:
            async with open_admin(name_servers=name_servers) as one:
                assert one.name_servers == (server.name_servers,)
            async with open_kv_store(name_servers=name_servers) as store:
                await store.put(b"k", b"v")

        async def on_asyncio(name_servers: str | None) -> None:
            async with aio_admin.open_admin(name_servers=name_servers) as one:
                await one.topics()
            async with aio_kv.open_kv_store(name_servers=name_servers) as store:
                assert await store.get(b"k") is not None

        def everywhere(name_servers: str | None) -> None:
            trio.run(on_trio, name_servers)
            asyncio.run(on_asyncio(name_servers))
            with blocking_admin.open_admin(name_servers=name_servers) as one:
                one.topics()
            with blocking_kv.open_kv_store(name_servers=name_servers) as store:
                assert store.get(b"k") is not None

        everywhere(url)
        monkeypatch.setenv("LANEMQ_URL", url)
        monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
        everywhere(None)
        runner = CliRunner()
        for command, args in ((admin, ["clusterList"]), (kv, ["get", "k"])):
            assert runner.invoke(command, args).exit_code == 0
            assert runner.invoke(command, [*args, "-n", url]).exit_code == 0
            assert runner.invoke(command, [*args, "-n", server.name_servers]).exit_code == 0


@pytest.mark.parametrize(
    ("url", "environment", "args", "expected"),
    [
        ("rocketmq://me:s@h/", {"LANEMQ_ACCESS_KEY": "e", "LANEMQ_SECRET_KEY": "x"}, [], None),
        ("rocketmq://me@h/", {"LANEMQ_SECRET_KEY": "x"}, [], None),
        ("rocketmq://h/", {"LANEMQ_ACCESS_KEY": "e", "LANEMQ_SECRET_KEY": "x"}, [], "e"),
        ("rocketmq://me:s@h/", {}, ["--access-key", "c", "--secret-key", "x"], "c"),
    ],
)
def test_the_account_of_a_string_precedes_that_of_the_environment(
    url: str, environment: dict[str, str], args: list[str], expected: str | None
) -> None:
    found: list[tuple[str, Access]] = []

    @click.command(params=[click.Option(["-n", "name_servers"]), *access_options()])
    def look(**options: object) -> None:
        found.append((take_name_servers(options), take_access(options)))

    result = CliRunner().invoke(look, ["-n", url, *args], env=environment)
    assert result.exit_code == 0, result.output
    ((servers, access),) = found
    assert servers == url
    assert (access.credentials and access.credentials.access_key) == expected


@pytest.mark.parametrize("command", [(admin, "topicList"), (kv, "status")])
@pytest.mark.parametrize(
    ("given", "variable", "said"),
    [
        ("rocketmq://", "", "no host"),
        ("rocketmq://u:TopSecret@h:x/", "", "h:x"),
        ("rocketmq://h/?grop=g", "", "did you mean 'group'"),
        (None, "http://h/", "LANEMQ_URL must begin with rocketmq://"),
    ],
)
def test_commands_say_what_is_wrong_in_a_string(
    command: tuple[click.Command, str], given: str | None, variable: str, said: str
) -> None:
    group, name = command
    where = [] if given is None else ["-n", given]
    result = CliRunner().invoke(group, [name, *where], env={"LANEMQ_URL": variable})
    text = result.output + str(result.exception)
    assert said in text
    assert "TopSecret" not in text
    assert "Traceback" not in text
