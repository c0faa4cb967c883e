"""Name server, broker, listener and clients with TLS between all of them; certificates to try."""

import json
import os
import signal
import ssl
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.nameserver import NameServer, NameServerConfig, open_nameserver
from lanemq.proxy.net.transport._tls import TlsMode
from lanemq.proxy.process import open_broker
from lanemq.proxy.tls import make_self_signed
from lanemq.sdk import (
    BrokerUnreachable,
    ClientOptions,
    ConsumeFrom,
    LitePullOptions,
    Message,
    ProducerOptions,
    open_lite_pull_consumer,
    open_producer,
    open_remoting_client,
)
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.brokers import SMALL_STORE
from lanemq.testkit.proxy.certificates import Authority, Pair
from lanemq.testkit.proxy.processes import server_process
from lanemq.wire.frame import request

ROUTE = request(105, {"topic": "TBW102"})


def locked(authority: Authority, pair: Pair, **more: str) -> dict[str, str]:
    """Settings of a server that lets in, and connects to, only those that ``authority`` knows."""
    return {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key),
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": str(authority.path),
        "tls.client.certPath": str(pair.certificate),
        "tls.client.keyPath": str(pair.key),
        "tls.client.trustCertPath": str(authority.path),
        **{f"tls.{key.replace('_', '.')}": value for key, value in more.items()},
    }


@asynccontextmanager
async def open_locked_nameserver(settings: dict[str, str]) -> AsyncIterator[NameServer]:
    given = {"bind_address": "127.0.0.1", "listen_port": 0}
    async with open_nameserver(NameServerConfig.from_properties(settings, given)) as server:
        yield server


def broker_config(root: Path, name_server: str, settings: dict[str, str]) -> BrokerConfig:
    given = {
        "broker_name": "broker-a",
        "bind_address": "127.0.0.1",
        "listen_port": 0,
        "namesrv_addr": name_server,
        "store_path_root_dir": root,
        **SMALL_STORE,
    }
    return BrokerConfig.from_properties(settings, given)


async def test_clients_and_servers_with_certificates_understand_each_other(tmp_path: Path) -> None:
    """And nobody else gets in, at any of the ports."""
    authority = Authority(tmp_path)
    settings = locked(authority, authority.issue())
    known = authority.trusted(authority.issue("client"))
    async with (
        open_locked_nameserver(settings) as name_server,
        open_broker(broker_config(tmp_path / "store", name_server.address, settings)) as broker,
    ):
        client = ClientOptions(tls=known, call_timeout_s=60)
        options = ProducerOptions(client=client, send_timeout_s=60)
        async with open_producer(
            "p", name_servers=name_server.address, options=options
        ) as producer:
            for number in range(10):
                await producer.send(Message(topic="T", body=b"%d" % number * 1000))
        reading = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=client)
        bodies = []
        async with open_lite_pull_consumer(
            "c", name_servers=name_server.address, options=reading
        ) as consumer:
            await consumer.subscribe("T")
            with trio.fail_after(60):
                async for message in consumer:
                    bodies.append(message.body)
                    if len(bodies) == 10:
                        break
        assert sorted(bodies) == [b"%d" % number * 1000 for number in range(10)]

        assert broker.logical_text is not None
        ports = (broker.port, broker.vip_port, int(broker.logical_text.rpartition(":")[2]))
        for address in (name_server.address, *(f"127.0.0.1:{port}" for port in ports)):
            for stranger, says in (
                (None, "the server closed the connection"),
                (authority.trusted(), "the server insists on a certificate of ours"),
                (Authority(tmp_path, "other").trusted(), "the server's certificate is refused"),
            ):
                async with open_remoting_client(tls=stranger) as outside:
                    with pytest.raises(BrokerUnreachable, match=says):
                        await outside.call(address, ROUTE)


async def test_a_broker_says_why_a_name_server_does_not_let_it_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    settings = locked(authority, authority.issue())
    without = {**settings, "tls.client.certPath": "", "tls.client.keyPath": ""}
    async with (
        open_locked_nameserver(settings) as name_server,
        open_broker(broker_config(tmp_path / "store", name_server.address, without)),
    ):
        assert name_server.routes.route("TBW102") is None
    told = [line for line in caplog.messages if "cannot register at name server" in line]
    assert "the server insists on a certificate of ours" in told[0]


# Certificates for trying it out


HOSTS = ("localhost", "127.0.0.1", "broker.example.org")


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_set_of_certificates_is_for_its_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files = make_self_signed(tmp_path / "tls", HOSTS, mode=TlsMode.ENFORCING)
    finally:
        os.umask(old)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert modes(files.folder) == {0o600}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_links_in_the_folder_lead_to_stays_as_it_is(tmp_path: Path) -> None:
    """An authority for several servers, or a certificate of the web server's, is not ours."""
    theirs = make_self_signed(tmp_path / "theirs", HOSTS, mode=TlsMode.ENFORCING)
    folder = tmp_path / "tls"
    folder.mkdir()
    linked = (theirs.authority, theirs.certificate, theirs.key)
    for file in linked:
        (folder / file.name).symlink_to(file)
    before = [file.read_bytes() for file in linked]
    ours = make_self_signed(folder, ("10.9.9.9",), mode=TlsMode.ENFORCING)
    assert [file.read_bytes() for file in linked] == before
    assert not ours.authority.is_symlink()
    assert ours.key.read_bytes() != theirs.key.read_bytes()


def test_the_next_start_keeps_what_clients_trust(tmp_path: Path) -> None:
    folder, now = tmp_path / "tls", datetime.now(UTC)
    make_self_signed(folder, HOSTS, mode=TlsMode.ENFORCING, now=now)
    first = contents(folder)
    make_self_signed(folder, HOSTS[:2], mode=TlsMode.ENFORCING, now=now + timedelta(days=300))
    assert contents(folder) == first

    for days, hosts in ((340, HOSTS), (341, (*HOSTS, "10.0.0.9"))):
        before = contents(folder)
        make_self_signed(folder, hosts, mode=TlsMode.ENFORCING, now=now + timedelta(days=days))
        after = contents(folder)
        changed = {name for name, data in before.items() if after[name] != data}
        assert changed == {"server.pem", "server.key"}

    (folder / "ca.key").unlink()  # taken to a safe place
    before = contents(folder)
    make_self_signed(folder, HOSTS, mode=TlsMode.ENFORCING, now=now + timedelta(days=342))
    assert contents(folder) == before


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("mine")
    with pytest.raises(ConfigError, match=r"ca.pem is not one of the files .* move it away"):
        make_self_signed(tmp_path, HOSTS, mode=TlsMode.ENFORCING)
    assert (tmp_path / "ca.pem").read_text() == "mine"


def test_without_the_package_that_makes_them_the_way_on_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lanemq.proxy.tls._issue", None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delattr("lanemq.proxy.tls._issue", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'lanemq\[tls\]'; or have them made"):
        make_self_signed(tmp_path, HOSTS, mode=TlsMode.ENFORCING)


# `lanemq serve --tls`


@pytest.mark.slow
async def test_serve_with_tls_prints_what_a_client_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lanemq.proxy.cli", "serve", "--port", "0", "--tls"]
    process = await trio.lowlevel.open_process(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        said = ""
        with trio.fail_after(60):
            while "\nready\n" not in said:
                said += (await process.stdout.receive_some()).decode()
        lines = said.splitlines()
        address = lines[0].removeprefix("name server ")
        authority = tmp_path / "lanemq-data" / "tls" / "ca.pem"
        assert f"TLS: clients trust {authority}" in lines
        (python,) = (line for line in lines if line.startswith("  Python: tls="))
        context = eval(python.removeprefix("  Python: tls="), {"ssl": ssl})
        async with open_remoting_client(tls=context) as client:
            assert (await client.call(address, ROUTE)).code == 0
        async with open_remoting_client() as client:
            with pytest.raises(BrokerUnreachable):
                await client.call(address, ROUTE)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.poll() is None:
            process.kill()
            await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("tls.server.certPath=a.pem\ntls.server.keyPath=a.key\n", "tls.server.certPath is a.pem"),
        ("tls.server.mode=disabled\n", "tls.server.mode is disabled: leave one out"),
    ],
)
def test_serve_makes_no_certificates_beside_others(conf: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(conf)
    command = [sys.executable, "-m", "lanemq.proxy.cli", "serve", "--tls", "-c", "broker.conf"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert says in done.stderr


@pytest.mark.slow
async def test_a_fleet_forwards_over_tls(tmp_path: Path) -> None:
    """Clients of listeners reach queues of both brokers, which take no plain connection."""
    async with server_process(
        ["serve", "--port", "0", "--tls", "--brokers", "2"], directory=tmp_path
    ) as fleet:
        context = ssl.create_default_context(cafile=fleet.facts["tls_authority"])
        name_server = fleet.facts["namesrv"]
        async with open_admin(name_servers=name_server, tls=context, timeout_s=60) as admin:
            with trio.fail_after(300):
                while len(await admin.masters("DefaultCluster")) < 2:  # noqa: ASYNC110
                    await trio.sleep(0.1)  # nobody tells a client of brokers
        old = ClientOptions(tls=context, logical_queues=False)
        sent: set[bytes] = set()
        options = ProducerOptions(client=old, retries=10, send_timeout_s=60)
        async with open_producer("p", name_servers=name_server, options=options) as producer:
            for number in range(40):
                body = b"%d" % number
                await producer.send(Message(topic="Fleet", body=body))
                sent.add(body)
        got: set[bytes] = set()
        reading = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=old)
        async with open_lite_pull_consumer(
            "c", name_servers=name_server, options=reading
        ) as consumer:
            await consumer.subscribe("Fleet")
            with trio.fail_after(300):
                async for message in consumer:
                    got.add(message.body)
                    if got == sent:
                        break
        assert "speaks no TLS" not in fleet.log_text
        assert json.dumps(fleet.facts["brokers"]).count("broker_name") == 2
