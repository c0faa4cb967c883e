"""The commands about RocksDB: against stand-ins of brokers, and on databases of a real one."""

import json
import tarfile
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lanemq.sdk import RefusedByBroker
from lanemq.sdk.admin import _client
from lanemq.sdk.admin.cli import admin
from lanemq.testkit.storage.stores import STORES
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    BrokerData,
    CheckRocksdbCqWriteProgressBody,
    CheckRocksdbCqWriteResult,
    CheckStatus,
    ClusterInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
    TopicList,
)
from lanemq.wire.frame import Frame

STORE = STORES / "rocksdb-5.3.3-clean.tar.gz"
CLUSTER = ClusterInfo(
    broker_addr_table={
        name: BrokerData("C", name, {0: f"{name}:10911"}) for name in ("broker-a", "broker-b")
    },
    cluster_addr_table={"C": ("broker-a", "broker-b"), "D": ()},
)
CHECK = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS
EXPORT = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON

Answer = Callable[[str, Frame], Frame]


class Brokers:
    """A cluster of which a test says what its brokers answer, by request code."""

    def __init__(self) -> None:
        self.answers: dict[int, Answer] = {
            RequestCode.GET_BROKER_CLUSTER_INFO: lambda _, frame: frame.reply(body=CLUSTER.encode())
        }
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def call(
        self, address: str, frame: Frame, timeout_s: float, *, accept: Container[int] = (0,)
    ) -> Frame:
        if frame.code != RequestCode.GET_BROKER_CLUSTER_INFO:
            self.asked.append((address, dict(frame.fields)))
        answer = self.answers[frame.code](address, frame)
        if answer.code not in accept:
            raise RefusedByBroker(answer.code, answer.remark, address)
        return answer


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()

    @asynccontextmanager
    async def open_stand_in(**options: object) -> AsyncIterator[Brokers]:
        yield brokers

    monkeypatch.setattr(_client, "open_remoting_client", open_stand_in)
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    return brokers


def run(*args: str) -> Result:
    return CliRunner().invoke(admin, args)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config directory of a broker 5.3.3 that used RocksDB."""
    root = tmp_path_factory.mktemp("store")
    with tarfile.open(STORE) as archive:
        members = [name for name in archive.getnames() if "/config/" in name]
        archive.extractall(root, [archive.getmember(name) for name in members], filter="data")
    return root / "rocksdb-5.3.3-clean" / "config"


def test_topics_and_groups_are_printed_line_by_line_and_as_json(config: Path) -> None:
    lines = run("exportMetadataInRocksDB", "-p", str(config), "-t", "topics").stdout.splitlines()
    assert len(lines) == 25
    assert lines[19] == (
        '20, Key: sd_events, Value: {"attributes":{},"order":false,"perm":6,"readQueueNums":3,'
        '"topicFilterType":"SINGLE_TAG","topicName":"sd_events","topicSysFlag":0,'
        '"writeQueueNums":3}'
    )
    args = ("exportMetadataInRocksDB", "-p", str(config), "-t", "SubscriptionGroups", "-j", "true")
    printed = json.loads(run(*args).stdout)
    assert list(printed) == ["subscriptionGroupTable"]
    assert printed["subscriptionGroupTable"]["sd_group_a"]["groupName"] == "sd_group_a"


def test_a_database_is_printed_with_its_version(config: Path) -> None:
    result = run("rocksDBConfigToJson", "-p", str(config), "-t", "topics")
    first, text = result.stdout.split("\n", 1)
    assert first == "Use [local mode] load rocksdb to print or export file"
    printed = json.loads(text)
    assert printed["dataVersion"]["counter"] == 14
    assert len(printed["topicConfigTable"]) == 25
    lines = run(
        "rocksDBConfigToJson", "-p", str(config), "-t", "subscriptionGroups", "-j", "false"
    ).stdout.splitlines()
    assert lines[1:3] == ["type: dataVersion", "1, Key: counter, Value: 7"]
    assert len([line for line in lines if ", Key: " in line]) == 14 + 3


def test_offsets_are_printed_with_bare_queue_ids_and_without_a_version(config: Path) -> None:
    args = ("rocksDBConfigToJson", "-p", str(config), "-t", "consumerOffsets")
    text = run(*args).stdout
    assert '"sd_events@sd_group_b":{0:196,1:199,2:196' in text
    assert "dataVersion" not in text
    printed = json.loads(run(*args, "--json").stdout)
    assert printed["offsetTable"]["sd_events@sd_group_b"] == {"0": 196, "1": 199, "2": 196}


def test_a_file_is_written_and_the_older_one_kept(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text("older")
    result = run("rocksDBConfigToJson", "-p", str(config), "-t", "topics", "-e", str(file))
    assert result.exit_code == 0
    assert (tmp_path / "topics.json.bak").read_text() == "older"
    assert json.loads(file.read_text())["dataVersion"]["counter"] == 14
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def test_nothing_in_the_directory_changes(config: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in config.rglob("*")}
    run("exportMetadataInRocksDB", "-p", str(config), "-t", "topics")
    assert {path: path.stat().st_mtime_ns for path in config.rglob("*")} == before


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["exportMetadataInRocksDB", "-p", "/none", "-t", "topics"], "RocksDB path is invalid."),
        (
            ["exportMetadataInRocksDB", "-p", "CONFIG", "-t", "consumerOffsets"],
            "Invalid config type=consumerOffsets, Options: topics,subscriptionGroups",
        ),
        (["rocksDBConfigToJson", "-p", "/none", "-t", "topics"], "Rocksdb path is invalid."),
        (["rocksDBConfigToJson", "-p", "CONFIG"], "please input configType"),
        (["rocksDBConfigToJson", "-p", "CONFIG", "-t", "topic"], "Invalid configType: topic"),
        (["rocksDBConfigToJson", "-p", "HERE", "-t", "topics"], "RocksDB load error, path="),
        (["rocksDBConfigToJson"], "give -n NAME_SERVER -c CLUSTER"),
        (["rocksDBConfigToJson", "-c", "C"], "no name server"),
        (["checkRocksdbCqWriteProgress", "-n", "n:1"], "Missing option '-c'"),
        (["checkRocksdbCqWriteProgress", "-n", "n:1", "-c", "X"], "cluster 'X' is unknown"),
        (["exportMetadata", "-n", "n:1"], "give either -b BROKER_ADDRESS or -c"),
        (["exportMetadata", "-n", "n:1", "-b", "b:1"], "give -t for topics or -g for groups"),
    ],
)
def test_a_mistake_is_named(
    args: list[str], text: str, config: Path, tmp_path: Path, brokers: Brokers
) -> None:
    paths = {"CONFIG": str(config), "HERE": str(tmp_path)}
    result = run(*[paths.get(arg, arg) for arg in args])
    assert result.exit_code == 1
    assert text in result.stderr


def test_brokers_are_told_to_export(brokers: Brokers) -> None:
    brokers.answers[EXPORT] = lambda _, frame: frame.reply(remark="export done.")
    result = run("rocksDBConfigToJson", "--nameserverAddr", "n:9876", "-c", "C", "-t", "Topics")
    assert result.stdout.splitlines() == [
        "Use [rpc mode] call all brokers in cluster to export to json file",
        "broker export done.",
    ]
    assert brokers.asked == [
        ("broker-a:10911", {"configType": "topics;"}),
        ("broker-b:10911", {"configType": "topics;"}),
    ]


def test_one_broker_is_told_without_any_name_server(brokers: Brokers) -> None:
    brokers.answers[EXPORT] = lambda _, frame: frame.reply(remark="export done.")
    result = run("rocksDBConfigToJson", "-b", "broker-a:10911")
    assert result.exit_code == 0
    assert brokers.asked == [
        ("broker-a:10911", {"configType": "topics;subscriptionGroups;consumerOffsets;"})
    ]


@pytest.mark.parametrize("name", ["checkRocksdbCqWriteProgress", "DiffConsumeQueue"])
def test_the_result_of_lanemq_is_printed(name: str, brokers: Brokers) -> None:
    text = "check all topic finish, all topic is ready, checkSize: 2, currentQueueNum: 2"
    body = CheckRocksdbCqWriteResult(text, CheckStatus.OK, safe_to_switch=True)
    brokers.answers[CHECK] = lambda _, frame: frame.reply(body=body.encode())
    result = run(name, "-n", "n:9876", "-c", "C", "-cf", "17")
    assert result.stdout.splitlines() == [
        "broker-a | broker-a:10911 |",
        text,
        "safe to switch to RocksDB alone: yes",
        "broker-b | broker-b:10911 |",
        text,
        "safe to switch to RocksDB alone: yes",
    ]
    asked = {"topic": "", "checkStoreTime": "17", "waitResult": "true"}
    assert brokers.asked == [("broker-a:10911", asked), ("broker-b:10911", asked)]


def test_a_topic_is_printed_as_the_broker_says_it(brokers: Brokers) -> None:
    body = CheckRocksdbCqWriteProgressBody("[topic: T, queue:  0] \n  kvEarliest : null")
    brokers.answers[CHECK] = lambda _, frame: frame.reply(body=body.encode())  # 5.3.1
    args = ("checkRocksdbCqWriteProgress", "-n", "n:9876", "-c", "C", "-t", "T")
    lines = run(*args).stdout.splitlines()
    assert lines == ["[topic: T, queue:  0]", "  kvEarliest : null"] * 2


def test_brokers_that_only_log_say_so(brokers: Brokers) -> None:
    answers = {
        "broker-a:10911": CheckRocksdbCqWriteResult(check_status=CheckStatus.IN_PROGRESS),
        "broker-b:10911": CheckRocksdbCqWriteResult("null[]", CheckStatus.ERROR),
    }
    brokers.answers[CHECK] = lambda address, frame: frame.reply(body=answers[address].encode())
    args = ("checkRocksdbCqWriteProgress", "-n", "n:9876", "-c", "C")
    assert run(*args).stdout.splitlines() == [
        "broker-a check doing, please wait and get the result from log...",
        "broker-b check error, please check log... errInfo: null[]",
    ]
    [first, second] = json.loads(run(*args, "--json").stdout)
    assert first == {"brokerName": "broker-a", "address": "broker-a:10911", "checkStatus": 2}
    assert second["checkStatus"] == 3


def answer_tables(brokers: Brokers) -> None:
    topics = {
        name: TopicConfig(name, 4, 4)
        for name in ("orders", "%RETRY%g", "%DLQ%g", "TBW102", "broker-a")
    }
    groups = {name: SubscriptionGroupConfig(name) for name in ("g", "TOOLS_CONSUMER")}
    bodies = {
        RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigWrapper(topics).encode(),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicList(("broker-a",)).encode(),
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupWrapper(groups).encode(),
    }
    for code, body in bodies.items():
        brokers.answers[code] = lambda _, frame, body=body: frame.reply(body=body)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "name", "members"),
    [
        ([], "metadata.json", {"topicConfigTable", "subscriptionGroupTable"}),
        (["-t"], "topic.json", {"topicConfigTable"}),
        (["-g"], "subscriptionGroup.json", {"subscriptionGroupTable"}),
    ],
)
def test_a_cluster_is_exported_without_what_is_the_brokers_own(
    options: list[str], name: str, members: set[str], brokers: Brokers, tmp_path: Path
) -> None:
    answer_tables(brokers)
    folder = tmp_path / "new"
    result = run("exportMetadata", "-n", "n:9876", "-c", "C", "-f", str(folder), *options)
    assert result.stdout == f"export {folder / name} success\n"
    written = json.loads((folder / name).read_text())
    assert written.keys() == {"exportTime", *members}
    if "topicConfigTable" in members:
        assert list(written["topicConfigTable"]) == ["orders"]
        assert written["topicConfigTable"]["orders"]["readQueueNums"] == 8  # of both brokers
    if "subscriptionGroupTable" in members:
        assert written["subscriptionGroupTable"]["g"]["retryQueueNums"] == 2
        assert list(written["subscriptionGroupTable"]) == ["g"]


def test_a_broker_is_exported_as_it_says_it(brokers: Brokers, tmp_path: Path) -> None:
    answer_tables(brokers)
    common = ("exportMetadata", "-n", "n:9876", "-b", "broker-a:10911", "-f", str(tmp_path))
    assert run(*common, "-t", "-s").exit_code == 0
    topics = json.loads((tmp_path / "topic.json").read_text())
    assert topics.keys() == {"dataVersion", "topicConfigTable"}
    assert list(topics["topicConfigTable"]) == ["%DLQ%g", "%RETRY%g", "orders"]
    assert run(*common, "-g").exit_code == 0
    groups = json.loads((tmp_path / "subscriptionGroup.json").read_text())
    assert groups["subscriptionGroupTable"]["g"]["retryQueueNums"] == 1
