"""The requests and tools of 5.3.3 for the upgrade: at Apache, at lanemq, and on its directory."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from lanemq.compat import (
    Cluster,
    Daemon,
    StoreStand,
    free_port,
    lanemq_name_server,
    running,
)
from lanemq.compat.servers._mqadmin import MqadminShell, open_mqadmin
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk.admin.cli import admin as admin_commands
from lanemq.storage import Stage
from lanemq.wire import RequestCode, fastjson

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

APACHE = "apache-5.3.3"
TABLES = {
    "topics": ("topics.json", "topicConfigTable"),
    "subscriptionGroups": ("subscriptionGroup.json", "subscriptionGroupTable"),
    "consumerOffsets": ("consumerOffset.json", "offsetTable"),
}
EVERYTHING = "".join(f"{table};" for table in TABLES)
ALL_READY = r"check all topic finish, all topic is ready, checkSize: (\d+), currentQueueNum: \1"
NOT_BOTH = {
    Stage.FILES: "rocksdbCQWriteEnable is false, checkRocksdbCqWriteProgressCommand is invalid",
    Stage.ROCKSDB: "storeType is DEFAULT_ROCKSDB, no need check",
}
STATUS = {Stage.FILES: 1, Stage.ROCKSDB: 0}


def logged_results(log: Path) -> list[Mapping[str, object]]:
    """Return what a broker, Apache's or ours, has put into its log about the check."""
    # Whole lines: it may be writing one.
    found = re.findall(r"checkRocksdbCqWriteProgress result: (.*)\n", log.read_text())
    return [json.loads(text) for text in found]


async def check(stand: StoreStand, broker: Daemon, topic: str) -> Mapping[str, object]:
    """Send 354 as mqadmin of 5.3.3 does, and return what the broker's log says then."""
    known = len(logged_results(broker.log))
    fields = {"topic": topic, "checkStoreTime": "0"}
    reply = await stand.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, fields)
    assert (reply.code, reply.body) == (0, b'{"checkStatus":2}'), "it has only begun"
    with trio.fail_after(60):
        while len(results := logged_results(broker.log)) == known:  # noqa: ASYNC110
            await trio.sleep(0.05)
    return results[known]


async def check_all(stand: StoreStand, broker: Daemon, stage: Stage) -> str:
    """Ask about all topics, one and none, as 5.3.3 answers; return the text about the one."""
    of_all, of_one, of_none = [
        await check(stand, broker, topic) for topic in ("", "T", "no-such-topic")
    ]
    if stage is Stage.BOTH:
        assert re.fullmatch(ALL_READY, str(of_all["checkResult"])), of_all
        assert [result["checkStatus"] for result in (of_all, of_one, of_none)] == [0, 0, 3]
    else:
        for result in (of_all, of_one, of_none):
            assert result == {"checkResult": NOT_BOTH[stage], "checkStatus": STATUS[stage]}
    return str(of_one["checkResult"])


async def until_both_are_written(stand: StoreStand, broker: Daemon) -> None:
    """Wait until RocksDB has what the file queues have, which Apache's broker writes before."""

    async def ready() -> bool:
        result = await check(stand, broker, "")
        return re.fullmatch(ALL_READY, str(result["checkResult"])) is not None

    await until(ready)


async def export(stand: StoreStand) -> None:
    """Send 355 with good and with bad types."""
    for config_type in (EVERYTHING, "topics"):
        reply = await ask_export(stand, config_type)
        assert reply == (0, "export done.")
    code, remark = await ask_export(stand, "no-such-type")
    assert code == 1
    assert "Unknown config type: no-such-type" in (remark or "")


async def ask_export(stand: StoreStand, config_type: str) -> tuple[int, str | None]:
    fields = {"configType": config_type}
    reply = await stand.ask(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, fields)
    return reply.code, reply.remark


async def test_both_brokers_answer_354_and_355_alike_in_every_stage(
    tmp_path: Path,
) -> None:
    """On one store; the text about one topic is the same to the last blank."""
    texts = []
    theirs = StoreStand(tmp_path / "theirs")
    ours: StoreStand | None = None
    for stage in (Stage.BOTH, Stage.FILES, Stage.ROCKSDB):
        talkative = ["RocketmqBroker"]
        async with theirs.run(APACHE, stage, killed=True, talkative=talkative) as broker:
            if stage is Stage.BOTH:
                await theirs.make_topic("T", 2)
                await theirs.send("T", 0, [b"a", b"bb", b"ccc"], tags="tag")
                await theirs.send("T", 1, [b"dddd"])
                await until_both_are_written(theirs, broker)
            texts.append(await check_all(theirs, broker, stage))
            await export(theirs)
        ours = ours or theirs.copy(tmp_path / "ours")
    assert ours is not None
    assert texts[0].count("[topic: T, queue:") == 2
    assert texts[0].count("CqUnit{queueOffset=2, ") == 2
    for stage, text in zip((Stage.BOTH, Stage.FILES, Stage.ROCKSDB), texts, strict=True):
        async with ours.run("lanemq", stage) as broker:
            assert await check_all(ours, broker, stage) == text
            await export(ours)


def our_admin(*arguments: str) -> str:
    """Run ``lanemq admin``."""
    if "-n" in arguments:
        arguments += ("--timeout", str(PATIENT_S))
    result = CliRunner().invoke(admin_commands, arguments)
    assert result.exit_code == 0, f"{arguments}: {result.output} {result.exception!r}"
    return result.stdout


def written(stand: StoreStand, table: str) -> dict[str, object]:
    """Return one of the JSON files of a broker."""
    file, _ = TABLES[table]
    value = fastjson.loads((stand.store / "config" / file).read_bytes())
    assert isinstance(value, dict)
    return value


async def both_tools(shell: MqadminShell, *arguments: str) -> str:
    """Run a command of mqadmin and of ``lanemq admin``, and return what the real one printed."""
    printed = await shell.run(*arguments)
    ours = await trio.to_thread.run_sync(lambda: our_admin(*arguments))
    for out in (printed.out, ours):
        assert out, printed.err
    return printed.out


async def test_mqadmin_5_3_3_has_lanemq_export_and_the_next_stage_1_has_it_all(
    tmp_path: Path,
) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    daemon = lanemq_name_server(tmp_path / "namesrv", port=port)
    stand = StoreStand(tmp_path / "broker", name_server=address)
    in_cluster = ("-n", address, "-c", "DefaultCluster")
    async with (
        running(Cluster("lanemq", address, tmp_path, [daemon])),
        open_mqadmin("5.3.3", tmp_path / "mqadmin") as shell,
    ):
        async with stand.run("lanemq", Stage.BOTH) as broker:
            await stand.make_topic("T", 2)
            await stand.send("T", 1, [b"x"] * 5)
            await stand.indexes_agree()
            printed = await both_tools(shell, "checkRocksdbCqWriteProgress", *in_cluster)
            doing = "broker-a check doing, please wait and get the result from log... \n"
            assert printed == doing
            with trio.fail_after(60):
                while not logged_results(broker.log):  # noqa: ASYNC110
                    await trio.sleep(0.05)
            (result,) = logged_results(broker.log)
            assert re.fullmatch(ALL_READY, str(result["checkResult"]))
            in_our_words = await trio.to_thread.run_sync(
                lambda: our_admin("checkRocksdbCqWriteProgress", *in_cluster)
            )
            assert re.search(ALL_READY, in_our_words)
            assert "safe to switch to RocksDB alone: yes" in in_our_words
        async with stand.run("lanemq", Stage.ROCKSDB):
            await stand.make_topic("new", 3)
            await stand.make_group("G")
            await stand.commit("G", "T", 1, 4)
            before = written(stand, "topics")
            assert "new" not in str(before["topicConfigTable"])
            printed = await both_tools(shell, "rocksDBConfigToJson", *in_cluster)
            assert printed.endswith("broker export done.")
            kept = await stand.view()
        bak = (stand.store / "config" / "topics.json.bak").read_bytes()
        assert b'"T"' in bak
        await databases_read_as_json(stand, shell, tmp_path / "links")
        async with stand.run("lanemq", Stage.FILES):
            assert kept.lost_in(await stand.view()) == []


def same_entries(found: object, file: object, member: str) -> bool:
    """Compare a table with that of a file, whose entries have only what 4.9 knows."""
    assert isinstance(found, dict)
    assert isinstance(file, dict)
    shared = {
        name: {key: entry.get(key) for key in file[member].get(name, {})}
        for name, entry in found[member].items()
    }
    return bool(shared == file[member])


async def databases_read_as_json(stand: StoreStand, shell: MqadminShell, links: Path) -> None:
    """Read the databases of a stopped broker with both tools of mqadmin, and compare the files."""
    config = stand.store / "config"
    # rocksDBConfigToJson looks for the names of its enumeration, which no broker has on the disk.
    await trio.to_thread.run_sync(link_as_enumeration, config, links)
    for table, (_, member) in TABLES.items():
        file = written(stand, table)
        arguments = ("rocksDBConfigToJson", "-p", str(links), "-t", table)
        for out in (
            (await shell.run(*arguments)).out,
            await trio.to_thread.run_sync(lambda a=arguments: our_admin(*a)),  # type: ignore[misc]
        ):
            head, _, text = out.partition("\n")
            assert head.strip() == "Use [local mode] load rocksdb to print or export file"
            value = fastjson.loads(text.encode())
            assert isinstance(value, dict)
            assert same_entries(value, file, member)
            if table != "consumerOffsets":
                assert value["dataVersion"] == file["dataVersion"]
        if table != "consumerOffsets":
            command = ("exportMetadataInRocksDB", "-p", str(config), "-t", table, "-j", "true")
            exported = fastjson.loads((await shell.run(*command)).out.encode())
            assert same_entries(exported, file, member)
            in_our_words = await trio.to_thread.run_sync(lambda c=command: our_admin(*c))  # type: ignore[misc]
            assert fastjson.loads(in_our_words.encode()) == exported


def link_as_enumeration(config: Path, links: Path) -> None:
    links.mkdir()
    for table in TABLES:
        for name in (table, re.sub("([A-Z])", r"_\1", table).upper()):
            (links / name).symlink_to(config / table)
