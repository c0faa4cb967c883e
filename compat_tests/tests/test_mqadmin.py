"""The real mqadmin works against lanemq, and `lanemq admin` against Apache, line for line.

Both tools ask the same cluster the same thing; what they print is compared. 5.3.3 prints some
tables with other columns than 4.9, whose form ours is: there the columns of ours must be among
them, with the same values.
"""

import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from lanemq.compat import Cluster, apache_cluster, lanemq_cluster
from lanemq.compat import running as running_cluster
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._mqadmin import MqadminShell, open_mqadmin
from lanemq.compat.servers._volatile import VOLATILE, without_volatile
from lanemq.compat.servers._waiting import PATIENT_PRODUCER, PATIENT_S, until
from lanemq.compat.tools._stand import reading
from lanemq.sdk import (
    Message,
    SendResult,
    open_producer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.cli import admin as admin_commands
from lanemq.wire import retry_topic
from lanemq.wire.bodies import MessageQueue, TopicConfig

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

TOPIC, GONE, LIVE = "compat_shared", "compat_gone", "compat_live"
VERSIONS = ("4.9.7", "5.3.3")
KINDS = ("made", "order")


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A cluster with a topic of four messages, a group that read them and left, one that stays."""

    cluster: Cluster
    admin: AdminClient
    broker: str
    message_id: str
    offset_id: str


async def routed(admin: AdminClient, *topics: str) -> None:
    async def known() -> bool:
        return set(topics) <= set(await admin.topics())

    await until(known)


async def indexed(admin: AdminClient, results: Sequence[SendResult]) -> None:
    """Wait until messages are found by their keys: brokers write the index behind the answer."""

    async def found() -> bool:
        by_key = [await admin.messages_by_key(TOPIC, f"k{n}") for n in range(len(results))]
        by_id = [await admin.messages_by_unique_key(TOPIC, one.message_id) for one in results]
        return all(len(messages) == 1 for messages in (*by_key, *by_id))

    await until(found)


async def consumed(admin: AdminClient, group: str) -> None:
    """Wait until the broker has all offsets of a group that read all four messages."""

    async def committed() -> bool:
        table = (await admin.progress(group)).offset_table
        read = [o.consumer_offset for q, o in table.items() if q.topic == TOPIC]
        return read == [2, 2] and any(queue.topic == retry_topic(group) for queue in table)

    await routed(admin, retry_topic(group))  # 4.9.7 tells name servers behind the heartbeat
    await until(committed)


@asynccontextmanager
async def prepared(cluster: Cluster) -> AsyncIterator[Prepared]:
    async with (
        running_cluster(cluster, graceful=False),
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        [broker] = await admin.masters("DefaultCluster")
        await admin.put_topic(broker, TopicConfig(TOPIC, 2, 2))
        await routed(admin, TOPIC)
        async with open_producer(
            "compat_setup", name_servers=cluster.name_server, options=PATIENT_PRODUCER
        ) as producer:
            results = [
                await producer.send(
                    Message(
                        topic=TOPIC, body=f"body {n}".encode(), tags=f"Tag{n % 2}", keys=(f"k{n}",)
                    ),
                    queue=MessageQueue(TOPIC, "broker-a", n % 2),
                )
                for n in range(4)
            ]
        await indexed(admin, results)
        async with reading(cluster, GONE, TOPIC):
            await consumed(admin, GONE)
        async with reading(cluster, LIVE, TOPIC):
            await consumed(admin, LIVE)
            yield Prepared(cluster, admin, broker, results[1].message_id, results[1].offset_id)


class Tools:
    """Both tools on one cluster."""

    def __init__(self, prepared: Prepared, shell: MqadminShell, version: str) -> None:
        self._name_server = prepared.cluster.name_server
        self._shell = shell
        self.version = version

    async def theirs(self, *args: str) -> str:
        printed = await self._shell.run(args[0], "-n", self._name_server, *args[1:])
        assert "SubCommandException" not in printed.err, printed.err
        return printed.out

    async def ours(self, *args: str) -> str:
        def run() -> str:
            patient = ("--timeout", str(PATIENT_S))
            arguments = [args[0], "-n", self._name_server, *patient, *args[1:]]
            result = CliRunner().invoke(admin_commands, arguments)
            assert result.exit_code == 0, f"{args}: {result.output} {result.exception!r}"
            return result.stdout

        return await trio.to_thread.run_sync(run)

    async def same(
        self, *args: str, in_order: bool = True, only_ours: tuple[str, ...] = ()
    ) -> None:
        """Ask both and compare every line; ``only_ours`` are arguments mqadmin does not know."""
        theirs = tidy(await self.theirs(*args))
        ours = tidy(await self.ours(*args, *only_ours))
        if not in_order:
            theirs, ours = sorted(theirs), sorted(ours)
        assert ours == theirs, args

    async def same_columns(self, *args: str) -> None:
        """Ask both and compare the tables in the columns they share; 4.9 shares all of them."""
        theirs, ours = table(await self.theirs(*args)), table(await self.ours(*args))
        shared = [name for name in ours.names if name in theirs.names]
        assert shared == ours.names, (args, theirs.names)
        shared = [name for name in shared if name not in VOLATILE]
        if self.version.startswith("4"):
            assert theirs.names == ours.names
        assert ours.only(shared) == theirs.only(shared), args


@dataclass(frozen=True, slots=True)
class Table:
    """The lines under the first title; the text after an empty line does not belong to it."""

    names: list[str]
    rows: list[list[str]]

    def only(self, names: list[str]) -> list[list[str]]:
        places = [self.names.index(name) for name in names]
        return sorted([row[place] for place in places] for row in self.rows)


def table(text: str) -> Table:
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("#"))
    names = [f"#{name.strip()}" for name in lines[start].split("#")[1:]]
    names = [{"#resetOffset": "#rollbackOffset"}.get(name, name) for name in names]  # of 5.3.3
    rows = []
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        # A time of day is the only value with a blank in it, and comes last.
        rows.append(line.rstrip().split(maxsplit=len(names) - 1))
    return Table(names, [[*row, *[""] * (len(names) - len(row))] for row in rows])


def tidy(text: str) -> list[str]:
    """Cut a text into lines, without what differs from run to run or is in no order."""
    text = without_volatile(text)
    text = re.sub(r"(?<=\])create topic", "\ncreate topic", text)  # 4.9 forgets to end a line
    text = text.replace("]MessageTrack", "]\nMessageTrack")
    text = re.sub(r"(Message Body Path: +)\S+", r"\1PATH", text)
    # A tool's own words for a group that never connected, 5.3.3's over two lines.
    text = re.sub(r"(trackType=UNKNOWN, exceptionDesc=)[^]]*\]", r"\1REASON]", text)
    # 5.3.3 prints the default of a member that a server did not send.
    text = re.sub(r',\s*"enableActingMaster":false', "", text)
    text = re.sub(r"compat_(mqadmin|lanemq)_", "compat_TOOL_", text)
    return [line for line in map(_tidy_line, text.splitlines()) if line]


def _tidy_line(line: str) -> str:
    def in_order(match: re.Match[str]) -> str:
        # The Java client adds the bounds of the queue to what it pulled.
        kept = [p for p in match[2].split(", ") if not p.startswith(("MIN_OFFSET", "MAX_OFFSET"))]
        return match[1] + ", ".join(sorted(kept)) + match[3]

    return re.sub(r"((?:Properties: +|properties=)\{)([^}]*)(\})", in_order, line).rstrip()


async def both_tools_agree(found: Prepared, tools: Tools) -> None:
    """Run the fifteen commands with both tools."""
    is_4 = tools.version.startswith("4")
    cluster, broker = ("-c", "DefaultCluster"), ("-b", found.broker)
    of_topic = () if is_4 else ("-t", TOPIC)

    for tool, run in (("mqadmin", tools.theirs), ("lanemq", tools.ours)):
        name = f"compat_{tool}_made"
        text = await run("updateTopic", *cluster, "-t", name, "-r", "3", "-w", "3")
        assert f"create topic to {found.broker} success." in text
        assert f"TopicConfig [topicName={name}, readQueueNums=3, writeQueueNums=3, perm=RW-" in text
        name = f"compat_{tool}_order"
        text = await run("updateTopic", *broker, "-t", name, "-r", "2", "-w", "2", "-o", "true")
        assert "set broker orderConf. isOrder=true, orderConf=[broker-a:2]" in text
        text = await run("updateSubGroup", *cluster, "-g", f"compat_{tool}_group", "-r", "5")
        assert f"create subscription group to {found.broker} success." in text
        assert f"groupName=compat_{tool}_group, consumeEnable=true" in text
        assert "retryMaxTimes=5" in text
        await routed(found.admin, *(f"compat_{tool}_{kind}" for kind in KINDS))
        where = ("-b", "broker-a", "-i", "1")
        text = await run("sendMessage", "-t", f"compat_{tool}_made", "-p", "x", "-k", "key", *where)
        sent = table(text)
        assert sent.names == ["#Broker Name", "#QID", "#Send Result", "#MsgId"]
        assert sent.rows[0][:3] == ["broker-a", "1", "SEND_OK"]

    await tools.same("topicList", in_order=False)
    await tools.same("topicRoute", "-t", TOPIC)
    await tools.same("topicRoute", "-t", TOPIC, "-l")
    await tools.same_columns("topicStatus", "-t", TOPIC)
    await tools.same("queryMsgByKey", "-t", TOPIC, "-k", "k1")
    unique = ("queryMsgByUniqueKey", "-t", TOPIC, "-i", found.message_id)
    await tools.same(*unique, in_order=False)
    await tools.same("queryMsgById", *of_topic, "-i", found.offset_id, in_order=False)
    await tools.same("printMsg", "-t", TOPIC, in_order=False)
    await tools.same_columns("consumerProgress", "-g", GONE)
    await tools.same_columns("consumerProgress", "-g", LIVE)
    await tools.same("consumerProgress", in_order=False)

    theirs, ours = table(await tools.theirs("clusterList")), table(await tools.ours("clusterList"))
    steady = ["#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version"]
    assert set(ours.names) <= set(theirs.names)
    assert ours.only(steady) == theirs.only(steady)
    their_keys, our_keys = (
        {line.split(":")[0].strip() for line in text.splitlines() if ":" in line}
        for text in (
            await tools.theirs("brokerStatus", *broker),
            await tools.ours("brokerStatus", *broker),
        )
    )
    assert our_keys == their_keys
    assert {"putTps", "commitLogMaxOffset", "runtime"} <= our_keys

    for group in (GONE, LIVE):
        reset = ("resetOffsetByTime", "-g", group, "-t", TOPIC, "-s", "0", "-f", "true")
        await tools.ours(*reset)
        await tools.same_columns(*reset)
    for tool, run in (("mqadmin", tools.theirs), ("lanemq", tools.ours)):
        text = await run("deleteTopic", *cluster, "-t", f"compat_{tool}_made")
        assert f"delete topic [compat_{tool}_made] from cluster [DefaultCluster] success." in text
        assert f"delete topic [compat_{tool}_made] from NameServer success." in text
    assert "compat_lanemq_made" not in (await tools.ours("topicList")).split()
    assert "compat_mqadmin_made" not in (await tools.ours("topicList")).split()


@pytest.mark.parametrize("version", VERSIONS)
async def test_mqadmin_and_lanemq_admin_agree_about_lanemq(tmp_path: Path, version: str) -> None:
    cluster = lanemq_cluster(tmp_path / "cluster", settings={"brokerName": "broker-a"})
    async with (
        prepared(cluster) as found,
        open_mqadmin(version, tmp_path / "mqadmin") as shell,
    ):
        await both_tools_agree(found, Tools(found, shell, version))


@pytest.mark.parametrize("version", VERSIONS)
async def test_mqadmin_and_lanemq_admin_agree_about_apache(tmp_path: Path, version: str) -> None:
    # Without its timer store 5.3.3 cannot delete a topic.
    settings = {**TEST_STORE, "timerWheelEnable": "true"}
    cluster = await trio.to_thread.run_sync(
        lambda: apache_cluster(version, tmp_path / "cluster", settings=settings)
    )
    async with (
        prepared(cluster) as found,
        open_mqadmin(version, tmp_path / "mqadmin") as shell,
    ):
        await both_tools_agree(found, Tools(found, shell, version))
