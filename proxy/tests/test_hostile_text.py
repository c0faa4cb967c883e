"""Whatever text a peer chooses, no log line and no line of a command can be forged by it."""

import io
import json
import logging
import os
import pty
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lanemq.sdk.admin.cli import admin
from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.sdk.kv.cli import kv
from lanemq.testing import TestServer, open_test_server
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    RegisterBrokerBody,
    SubscriptionData,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame, decode_frame, encode_frame, request

FORGED = "evil\n2026-11-27 10:00:00,000 INFO lanemq.proxy: forged\r\x1b[2J\x9b31m\u202e\u2028\x07"
"""A line break, a cleared terminal, a colour, reversed text, and the bell."""
PROPERTY = FORGED.replace("\x01", "").replace("\x02", "")


@pytest.fixture
def server(caplog: pytest.LogCaptureFixture) -> Iterator[TestServer]:
    with caplog.at_level(logging.DEBUG), open_test_server() as server:
        yield server


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log as ``lanemq serve`` writes it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


class Peer:
    """A client without manners."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 10)
        self._file = self._socket.makefile("rb")

    def call(self, code: int, body: bytes = b"", **fields: str) -> Frame:
        self._socket.sendall(encode_frame(request(code, fields, body=body)))
        size = int.from_bytes(self._file.read(4), "big")
        return decode_frame(self._file.read(size))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def broker(server: TestServer) -> Iterator[Peer]:
    server.create_topic("T", queues=1)
    peer = Peer(server.broker_address)
    yield peer
    peer.close()


@pytest.fixture
def name_server(server: TestServer) -> Iterator[Peer]:
    peer = Peer(server.name_servers)
    yield peer
    peer.close()


def assert_safe(text: str) -> None:
    """No line is forged, no character commands a terminal; tabs are lanemq's own layout."""
    lines = text.replace("\t", "").split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert not any(line.startswith("2026-11-27 10:00:00,000 INFO") for line in lines)


def assert_log_is_safe(log: io.StringIO) -> None:
    for line in log.getvalue().rstrip("\n").split("\n"):
        assert line.isprintable(), line
        assert line[:2] == "20" or line.startswith("    "), line
        assert "INFO lanemq.proxy: forged" not in line.split(": ", 1)[0], line
        assert len(line) < 20_000


def send(broker: Peer, *, size: int = 1) -> None:
    text = PROPERTY * size
    properties = {"TAGS": text, "KEYS": f"k {text}", "UNIQ_KEY": f"U{text}", text: text}
    written = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    answer = broker.call(
        RequestCode.SEND_MESSAGE,
        FORGED.encode(),
        producerGroup=FORGED[:100],
        topic="T",
        queueId="0",
        defaultTopic="TBW102",
        defaultTopicQueueNums="4",
        sysFlag="0",
        bornTimestamp="1700000000000",
        flag="0",
        properties=written,
        reconsumeTimes="0",
    )
    assert answer.code == 0, answer.remark


def heartbeat(broker: Peer, name: str) -> Frame:
    subscription = SubscriptionData(name, sub_string=name, tags_set=frozenset([name]))
    data = HeartbeatData(
        name,
        (ProducerData(name),),
        (ConsumerData(name, subscription_data_set=(subscription,)),),
    )
    return broker.call(RequestCode.HEART_BEAT, data.encode())


def register(name_server: Peer, name: str, *, topic: str = "X") -> Frame:
    topics = TopicConfigWrapper({topic: TopicConfig(topic)})
    return name_server.call(
        RequestCode.REGISTER_BROKER,
        RegisterBrokerBody(topics).encode(),
        brokerName=name,
        brokerAddr="127.0.0.1:1",
        clusterName=name,
        haServerAddr=name,
        brokerId="0",
    )


def run(command: click.Command, *arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


NAMES = {"forged": FORGED, "long": "x" * 500_000, "lines": "\n" * 200_000}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_that_peers_choose_forge_no_log_line(
    broker: Peer, name_server: Peer, log: io.StringIO, name: str
) -> None:
    register(name_server, name[:255])  # the longest that is taken
    short = name[:20_000]  # a header has 64 KB at most
    register(name_server, short)
    register(name_server, short, topic=name)
    heartbeat(broker, name)
    for peer in (broker, name_server):
        for code in (*RequestCode, 9_999):
            if code in (RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.DELETE_EXPIRED_COMMITLOG):
                continue
            if len(name) > 1000 and code % 7:
                continue
            fields = ("topic", "group", "consumerGroup", "brokerName", "clientId", "brokerAddr")
            try:
                peer.call(code, name.encode(), **dict.fromkeys(fields, name[:5000]))
            except (OSError, ValueError):
                return assert_log_is_safe(log)  # it has closed the connection, rightly
    assert_log_is_safe(log)
    return None


def test_commands_about_messages_print_no_forged_line(
    server: TestServer, broker: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    send(broker)
    (message,) = server.messages("T")
    named = ("-n", server.name_servers)
    ids = ("queryMsgById", *named, "-i", message.offset_id)
    by_key = ("queryMsgByKey", *named, "-t", "T", "-k", "k")
    unique = ("queryMsgByUniqueKey", *named, "-t", "T", "-i", f"U{PROPERTY}")
    for command in (ids, by_key, unique, ("printMsg", *named, "-t", "T")):
        output = run(admin, *command)
        assert_safe(output)
        assert "forged" in output, output
        values = json.loads(run(admin, *command, "--json"))
        assert values[0]["properties"]["TAGS"] == PROPERTY  # exact
        assert values[0]["body"] == FORGED
    assert len(list((tmp_path / ".lanemq" / "msgbodys").iterdir())) >= 1
    by_offset = ("queryMsgByOffset", *named, "-t", "T", "-i", "0", "-o", "0")
    assert_safe(run(admin, *by_offset))


COMMANDS = [
    ["clusterList"],
    ["clusterList", "-m"],
    ["topicList"],
    ["topicList", "-c"],
    ["topicRoute", "-t", "X"],
    ["topicClusterList", "-t", "X"],
    ["topicStatus", "-t", "X"],
    ["consumerProgress"],
    ["consumerProgress", "-g", "victim"],
    ["consumerConnection", "-g", "victim"],
    ["consumerStatus", "-g", "victim"],
    ["producerConnection", "-g", "victim", "-t", "T"],
    ["brokerStatus", "-c", FORGED],
    ["exportMetadata", "-c", FORGED],
    ["topicList", "--json"],
    ["topicRoute", "-t", "X", "--json"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_tables_of_names_print_no_forged_line(
    server: TestServer, broker: Peer, name_server: Peer, arguments: list[str]
) -> None:
    register(name_server, FORGED)
    register(name_server, FORGED, topic=FORGED)
    heartbeat(broker, FORGED)
    subscription = SubscriptionData("T", sub_string=FORGED, tags_set=frozenset([FORGED]))
    data = HeartbeatData(
        FORGED,
        (ProducerData("victim"),),
        (ConsumerData("victim", subscription_data_set=(subscription,)),),
    )
    broker.call(RequestCode.HEART_BEAT, data.encode())
    assert_safe(run(admin, *arguments, "-n", server.name_servers, "--timeout", "1"))


def test_a_broker_s_remark_forges_no_line() -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as file:
            while head := file.read(4):
                frame = decode_frame(file.read(int.from_bytes(head, "big")))
                connection.sendall(encode_frame(frame.reply(1, remark=FORGED)))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    output = run(admin, "topicRoute", "-n", address, "-t", "T")
    listening.close()
    assert "forged" in output
    assert_safe(output)


def test_kv_shows_keys_and_values_in_their_lines(server: TestServer) -> None:
    named = ("-n", server.name_servers)
    with open_kv_store(name_servers=server.name_servers) as keys:
        keys.put(FORGED.encode(), FORGED.encode() + b"\xff")
    scanned = run(kv, "scan", *named)
    assert scanned.count("\n") == 1
    assert_safe(scanned)
    watched = run(kv, "watch", *named, "--position", "0", "--count", "1")
    assert watched.count("\n") == 1
    assert_safe(watched)
    assert_safe(run(kv, "get", FORGED + "?", *named))
    exact = CliRunner().invoke(kv, ["get", FORGED, *named, "--raw"])
    assert exact.stdout_bytes == FORGED.encode() + b"\xff"


def test_a_value_on_a_terminal_commands_nothing(server: TestServer) -> None:
    with open_kv_store(name_servers=server.name_servers) as keys:
        keys.put(b"k", FORGED.encode() + b"\xff")
    controller, terminal = pty.openpty()
    command = "import sys; from lanemq.sdk.kv.cli import kv; kv()"
    done = subprocess.run(
        [sys.executable, "-c", command, "get", "k", "-n", server.name_servers],
        stdout=terminal,
        timeout=300,
        check=True,
    )
    os.close(terminal)
    shown = os.read(controller, 10_000).decode()
    os.close(controller)
    assert done.returncode == 0
    assert "\\x1b[2J" in shown
    assert shown.replace("\r\n", "").isprintable()
