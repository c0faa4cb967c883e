"""The real mqadmin 5.3.3 on what lanemq keeps in RocksDB: directories, and running brokers."""

import json
import shutil
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from lanemq.compat import lanemq_cluster
from lanemq.compat import running as running_cluster
from lanemq.compat.servers._mqadmin import MqadminShell, open_mqadmin
from lanemq.compat.servers._waiting import PATIENT_S
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_commands
from lanemq.storage import StoreConfig, StoreType, open_store
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

VERSION = "5.3.3"
CLUSTER = "DefaultCluster"
# Where Java's Local mode looks for a table: under the name of its constant, not of the directory.
CONSTANTS = {
    "topics": "TOPICS",
    "subscriptionGroups": "SUBSCRIPTION_GROUPS",
    "consumerOffsets": "CONSUMER_OFFSETS",
}


async def write_tables(root: Path) -> Path:
    """Tables in RocksDB, as a store leaves them; returns their directory."""
    async with open_store(StoreConfig(root=root, store_type=StoreType.ROCKSDB)) as store:
        for topic in (
            TopicConfig("orders", 4, 4),
            TopicConfig("%RETRY%g/é", 1, 1, attributes={"+message.type": "FIFO"}),
        ):
            store.tables.topics.put(topic)
        store.tables.groups.put(SubscriptionGroupConfig("g", retry_max_times=3))
        store.tables.consumer_offsets.put("g", "orders", 0, 640)
        store.tables.consumer_offsets.put("g", "orders", 3, 1 << 60)
    return root / "config"


def ours(*args: str) -> str:
    result = CliRunner().invoke(admin_commands, args)
    assert result.exit_code == 0, result.output
    return result.stdout


async def theirs(shell: MqadminShell, *args: str) -> str:
    printed = await shell.run(*args)
    assert "Exception" not in printed.err, printed.err
    return printed.out


async def test_both_tools_read_the_same_in_a_directory_that_lanemq_wrote(tmp_path: Path) -> None:
    config = await write_tables(tmp_path / "store")
    async with open_mqadmin(VERSION, tmp_path / "mqadmin") as shell:
        for table in ("topics", "subscriptionGroups"):
            args = ("exportMetadataInRocksDB", "-p", str(config), "-t", table)
            assert await theirs(shell, *args) == await trio.to_thread.run_sync(ours, *args)
            printed = await theirs(shell, *args, "-j", "true")
            our_json = await trio.to_thread.run_sync(ours, *args, "-j", "true")
            assert json.loads(printed) == json.loads(our_json)
        for table, constant in CONSTANTS.items():
            args = ("rocksDBConfigToJson", "-p", str(config), "-t", table)
            assert "{" not in (await shell.run(*args)).out
            shutil.rmtree(config / constant)  # where it looked, it has made a directory
            (config / constant).symlink_to(config / table)
            first, text = (await theirs(shell, *args)).split("\n", 1)
            our_first, our_text = (await trio.to_thread.run_sync(ours, *args)).split("\n", 1)
            assert first.strip() == our_first
            if table == "consumerOffsets":  # bare queue ids: no strict JSON
                assert text.split() == our_text.split()
            else:
                assert json.loads(text) == json.loads(our_text)


async def test_mqadmin_has_a_running_broker_of_lanemq_export_its_tables(tmp_path: Path) -> None:
    settings = {"storeType": "defaultRocksDB"}
    cluster = lanemq_cluster(tmp_path / "cluster", settings=settings)
    config = tmp_path / "cluster" / "store" / "config"
    async with (
        running_cluster(cluster),
        open_mqadmin(VERSION, tmp_path / "mqadmin") as shell,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        [broker] = await admin.masters(CLUSTER)
        await admin.put_topic(broker, TopicConfig("made", 3, 3))
        assert not (config / "topics.json").exists()
        printed = await theirs(
            shell, "rocksDBConfigToJson", "-n", cluster.name_server, "-c", CLUSTER, "-t", "topics"
        )
        assert printed.endswith("broker export done.")
        exported = json.loads((config / "topics.json").read_text())
        assert exported["topicConfigTable"]["made"]["readQueueNums"] == 3
        printed = await theirs(
            shell, "checkRocksdbCqWriteProgress", "-n", cluster.name_server, "-c", CLUSTER
        )
        assert "check doing, please wait and get the result from log" in printed


async def test_mqadmin_asks_a_broker_of_lanemq_that_writes_both(
    tmp_path: Path,
) -> None:
    cluster = lanemq_cluster(tmp_path / "cluster", settings={"rocksdbCQDoubleWriteEnable": "true"})
    async with (
        running_cluster(cluster),
        open_mqadmin(VERSION, tmp_path / "mqadmin") as shell,
    ):
        args = ("checkRocksdbCqWriteProgress", "-n", cluster.name_server, "-c", CLUSTER)
        printed = await theirs(shell, *args)
        name, _, rest = printed.partition(" ")
        assert name
        assert rest == "check doing, please wait and get the result from log... \n"
        patient = ("--timeout", str(PATIENT_S))
        lines = (await trio.to_thread.run_sync(ours, *args, *patient)).splitlines()
        assert lines[0].startswith(f"{name} | 127.0.0.1:")
        assert lines[1].startswith("check all topic finish, all topic is ready, checkSize: ")
        assert lines[2] == "safe to switch to RocksDB alone: yes"
