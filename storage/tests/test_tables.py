"""The files under ``config``: what is kept, what a broken one costs, and their looks."""

import errno
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.storage import ConfigInvalid
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import OpenSmall
from lanemq.wire import fastjson
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig

CONFIG = Path("/store/config")
TOPICS = CONFIG / "topics.json"
OFFSETS = CONFIG / "consumerOffset.json"


def topics_written(files: SimulatedFiles) -> bytes:
    return files.read_all(TOPICS) or b""


async def test_tables_come_back_as_they_were(open_small: OpenSmall) -> None:
    topic = TopicConfig("T", read_queue_nums=3, attributes={"+message.type": "NORMAL"})
    group = SubscriptionGroupConfig("g", retry_max_times=3)
    async with open_small() as store:
        tables = store.tables
        tables.topics.put(topic)
        tables.groups.put(group)
        tables.consumer_offsets.put("g", "T", 0, 5)
        tables.consumer_offsets.put("g", "T", 11, 6)
        tables.consumer_offsets.put("g", "%RETRY%g", 0, 7)
        tables.consumer_offsets.put("h", "T", 0, 8)
        tables.delay_offsets.put(3, 9)
        version = tables.topics.data_version
        assert version.counter == 1
    async with open_small() as store:
        tables = store.tables
        assert tables.topics.get("T") == topic
        assert tables.topics.names == ("T",)
        assert tables.topics.data_version == version
        assert tables.groups.configs == {"g": group}
        offsets = tables.consumer_offsets
        assert offsets.get("g", "T", 11) == 6
        assert offsets.get("g", "T", 1) is None
        assert offsets.get("x", "T", 0) is None
        assert offsets.queues("g", "T") == {0: 5, 11: 6}
        assert sorted(offsets.topics_of("g")) == ["%RETRY%g", "T"]
        assert sorted(offsets.groups_of("T")) == ["g", "h"]
        assert offsets.as_table()["T@g"] == {0: 5, 11: 6}
        assert tables.delay_offsets.get(3) == 9
        assert tables.delay_offsets.get(4) == 0
        offsets.remove_topic("T")
        assert offsets.groups == ("g",)
        offsets.remove_group("g")
        assert tables.topics.remove("T")
        assert not tables.topics.remove("T")
        assert tables.topics.data_version.counter == 2
    async with open_small() as store:
        assert store.tables.topics.names == ()
        assert store.tables.consumer_offsets.as_table() == {}


def without_times(files: SimulatedFiles, path: Path) -> bytes:
    return re.sub(rb'"timestamp":[0-9]{13}', b'"timestamp":0', files.read_all(path) or b"")


async def test_files_look_as_rocketmq_writes_them(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        store.tables.consumer_offsets.put("some_group", "BenchT2", 0, 640)
        store.tables.consumer_offsets.put("some_group", "BenchT2", 1, 800)
        store.tables.topics.put(TopicConfig("T", 4, 4))
    assert without_times(files, OFFSETS) == (
        b'{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"timestamp":0\n\t},\n'
        b'\t"offsetTable":{\n\t\t"BenchT2@some_group":{0:640,1:800\n\t\t}\n\t}\n}'
    )
    assert without_times(files, TOPICS) == (
        b'{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"timestamp":0\n\t},\n'
        b'\t"topicConfigTable":{\n\t\t"T":{\n\t\t\t"order":false,\n\t\t\t"perm":6,\n'
        b'\t\t\t"readQueueNums":4,\n\t\t\t"topicFilterType":"SINGLE_TAG",\n'
        b'\t\t\t"topicName":"T",\n\t\t\t"topicSysFlag":0,\n\t\t\t"writeQueueNums":4\n'
        b"\t\t}\n\t}\n}"
    )


async def test_what_is_not_known_stays_in_the_files(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    files.write_all(
        OFFSETS,
        b'{"dataVersion":{"counter":4,"stateVersion":2,"timestamp":1},"groupTopicMap":{"old":[]},'
        b'"offsetTable":{"T@g":{"0":"5",1:6},"no group":{0:1},"a@b@c":{0:2}},"pullOffsetTable":{}}',
    )
    files.write_all(
        CONFIG / "subscriptionGroup.json",
        b'{"forbiddenTable":{"g":{"T":1}},"subscriptionGroupTable":{"g":{"groupName":"g",'
        b'"consumeTimeoutMinute":15,"groupRetryPolicy":{"type":"CUSTOMIZED"}}}}',
    )
    async with open_small() as store:
        assert store.tables.consumer_offsets.queues("g", "T") == {0: 5, 1: 6}
        store.tables.consumer_offsets.put("g", "T", 0, 7)
        store.tables.groups.put(SubscriptionGroupConfig("h"))
    offsets = files.read_all(OFFSETS) or b""
    assert b'"no group":{' in offsets
    assert b'"a@b@c":{' in offsets
    assert b'"pullOffsetTable":{}' in offsets
    assert b'"counter":5,\n\t\t"stateVersion":2' in offsets
    assert b'"groupTopicMap":{\n\t\t"g":["T"]\n\t}' in offsets
    groups = files.read_all(CONFIG / "subscriptionGroup.json") or b""
    assert b'"forbiddenTable":{\n\t\t"g":{\n\t\t\t"T":1' in groups
    assert b'"consumeTimeoutMinute":15' in groups
    assert b'"type":"CUSTOMIZED"' in groups


async def test_whatever_a_body_may_say_of_a_group_is_read_again_at_the_next_start(
    open_small: OpenSmall,
) -> None:
    levels = fastjson.MAX_DEPTH - 1
    body = '{"groupName":"g","deep":' + "[" * levels + "]" * levels + "}"
    group = SubscriptionGroupConfig.decode(body)
    async with open_small() as store:
        store.tables.groups.put(group)
    async with open_small() as store:
        assert store.tables.groups.get("g") == group


@pytest.mark.parametrize("broken", [None, b"", b'{"topicConfigTable":{', b"[1]"])
async def test_a_broken_file_is_replaced_by_its_backup(
    open_small: OpenSmall, files: SimulatedFiles, broken: bytes | None
) -> None:
    async with open_small() as store:
        store.tables.topics.put(TopicConfig("first"))
        await trio.sleep(20)
        store.tables.topics.put(TopicConfig("second"))
    files.remove(TOPICS)
    if broken is not None:
        files.write_all(TOPICS, broken)
    async with open_small() as store:
        assert store.tables.topics.names == ("first",)
        store.tables.topics.put(TopicConfig("third"))
    async with open_small() as store:
        assert store.tables.topics.names == ("first", "third")
    assert b"first" in (files.read_all(TOPICS.with_name("topics.json.bak")) or b"")


async def test_where_file_and_backup_are_broken_the_start_names_both(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    files.write_all(TOPICS, b"{")
    files.write_all(TOPICS.with_name("topics.json.bak"), b"nonsense")
    with pytest.raises(ConfigInvalid, match=r"topics\.json cannot.*topics\.json\.bak cannot"):
        async with open_small():
            pass


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("topics.json", b'{"topicConfigTable":{"T":{"perm":"x","topicName":"T"}}}', "json, T:"),
        ("topics.json", b'{"topicConfigTable":[]}', "topicConfigTable: it is not an object"),
        ("topics.json", b'{"dataVersion":{"counter":"x"}}', "json, dataVersion"),
        ("consumerOffset.json", b'{"offsetTable":{"T@g":{0:"x"}}}', "json, T@g"),
        ("consumerOffset.json", b'{"offsetTable":{"T@g":5}}', "json, T@g"),
        ("delayOffset.json", b'{"offsetTable":{"x":5}}', "delayOffset.json"),
    ],
)
async def test_an_entry_that_makes_no_sense_is_named(
    open_small: OpenSmall, files: SimulatedFiles, name: str, content: bytes, where: str
) -> None:
    files.write_all(CONFIG / name, content)
    with pytest.raises(ConfigInvalid, match=where):
        async with open_small():
            pass


async def test_topics_are_written_at_once_and_offsets_soon(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        store.tables.topics.put(TopicConfig("T"))
        store.tables.consumer_offsets.put("g", "T", 0, 1)
        store.tables.delay_offsets.put(1, 1)
        files.kill()
        after_kill = files.reboot("kill")
        assert after_kill.exists(TOPICS)
        assert not after_kill.exists(OFFSETS)
        files.revive()
        await trio.sleep(6)
        assert files.reboot("power").exists(OFFSETS)
        assert not files.exists(CONFIG / "delayOffset.json")
        await trio.sleep(5)
        assert files.reboot("power").exists(CONFIG / "delayOffset.json")


async def test_a_file_is_the_same_however_much_of_it_was_written_before(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        topics = store.tables.topics
        for number in range(50):
            topics.put(TopicConfig(f"T{number}", attributes={"a": "ü\n"}, extra={"x": {"y": [1]}}))
            if number % 3 == 0:
                topics.put(TopicConfig(f"T{number // 2}", perm=number % 7))
        topics.remove("T7")
        assert topics_written(files) == fastjson.dumps(
            {
                "dataVersion": topics.data_version,
                "topicConfigTable": dict(topics.configs),
            },
            pretty=True,
        )


async def test_a_commit_encodes_the_offsets_of_its_group_only(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store:
        for number in range(500):
            store.tables.consumer_offsets.put(f"group{number % 20}", f"T{number}", 0, number)
    encoded: list[object] = []
    dump_named = fastjson.dump_named

    def counted(name: str, value: object, *, levels: int) -> bytes:
        encoded.append(value)
        return dump_named(name, value, levels=levels)

    async with open_small() as store:
        offsets = store.tables.consumer_offsets
        monkeypatch.setattr(fastjson, "dump_named", counted)
        offsets.put("group1", "T1", 1, 7)
        offsets.remove("group2", "T2")
        store.tables.persist()
        assert encoded == [{0: 1, 1: 7}]
        members = fastjson.loads(files.read_all(OFFSETS) or b"")
        assert isinstance(members, dict)
        table = members["offsetTable"]
        assert table == {
            name: {str(queue): offset for queue, offset in queues.items()}
            for name, queues in offsets.as_table().items()
        }
        assert len(table) == 499
        assert files.read_all(OFFSETS) == fastjson.dumps(
            {"dataVersion": offsets.data_version, "offsetTable": offsets.as_table()}, pretty=True
        )


async def test_a_new_topic_or_group_encodes_itself_only_after_a_start_too(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store:
        for number in range(100):
            store.tables.topics.put(TopicConfig(f"T{number}"), at_once=False)
            store.tables.groups.put(SubscriptionGroupConfig(f"g{number}"), at_once=False)
    encoded: list[object] = []
    dump_named = fastjson.dump_named

    def counted(name: str, value: object, *, levels: int) -> bytes:
        encoded.append(value)
        return dump_named(name, value, levels=levels)

    async with open_small() as store:
        monkeypatch.setattr(fastjson, "dump_named", counted)
        new = TopicConfig("new"), SubscriptionGroupConfig("new")
        store.tables.topics.put(new[0])
        store.tables.groups.put(new[1])
        assert encoded == list(new)
        assert b"T99" in topics_written(files)


async def test_changes_that_nobody_waits_for_are_written_once_and_soon(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        tables = store.tables
        tables.topics.put(TopicConfig("first"))
        before = topics_written(files)
        for number in range(10):
            tables.topics.put(TopicConfig(f"T{number}"), at_once=False)
        await tables.write_wanted()  # nobody does
        assert topics_written(files) == before
        tables.want(tables.topics, "T9")
        await tables.write_wanted()
        assert b"T9" in topics_written(files)
        tables.groups.put(SubscriptionGroupConfig("g"), at_once=False)
        await trio.sleep(6)
        assert files.reboot("power").exists(CONFIG / "subscriptionGroup.json")


async def test_a_change_that_cannot_be_written_is_wanted_until_it_is(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store:
        tables = store.tables
        topics, groups = tables.topics, tables.groups
        topics.put(TopicConfig("T"), at_once=False)
        tables.want(topics, "T")
        groups.put(SubscriptionGroupConfig("g"), at_once=False)
        tables.want(groups, "g")

        async def full(_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(topics.backend, "write_off_loop", full)
            for _ in range(2):
                with pytest.raises(OSError, match="No space"):
                    await tables.write_wanted()
        assert not tables.is_wanted, "those who wanted it have been refused"
        assert tables.is_unwritten(topics, "T")
        assert tables.is_unwritten(groups, "g")
        assert not tables.is_unwritten(topics, "U")
        tables.want(topics, "T")
        await tables.write_wanted()
        assert not tables.is_unwritten(topics, "T")
        assert not tables.is_unwritten(groups, "g")
        assert b'"T"' in topics_written(files)
        assert b'"g"' in (files.read_all(CONFIG / "subscriptionGroup.json") or b"")


async def test_a_wanted_change_pays_for_no_other_that_waits(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store:
        tables = store.tables
        for number in range(50):
            tables.topics.put(TopicConfig(f"W{number}"), at_once=False)
            tables.groups.put(SubscriptionGroupConfig(f"w{number}"), at_once=False)
        tables.groups.remove("w7", at_once=False)
        encoded = list[object]()
        dump_named = fastjson.dump_named

        def counted(name: str, value: object, *, levels: int) -> bytes:
            encoded.append(value)
            return dump_named(name, value, levels=levels)

        monkeypatch.setattr(fastjson, "dump_named", counted)
        new = TopicConfig("new")
        tables.topics.put(new, at_once=False)
        tables.want(tables.topics, "new")
        await tables.write_wanted()
        assert encoded == [new]
        assert b"W49" in topics_written(files)
        assert not tables.is_wanted
        assert not files.exists(CONFIG / "subscriptionGroup.json")
    assert b'"w49"' in (files.read_all(CONFIG / "subscriptionGroup.json") or b"")
    assert b'"w7"' not in (files.read_all(CONFIG / "subscriptionGroup.json") or b"")


async def test_a_full_disk_leaves_the_old_file_in_place(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        store.tables.topics.put(TopicConfig("first"))
        files.space_bytes = 0
        with pytest.raises(OSError, match="No space left"):
            store.tables.topics.put(TopicConfig("second"))
        assert b"first" in (files.read_all(TOPICS) or b"")
        files.space_bytes = None
        await trio.sleep(10)
        assert b"second" in (files.read_all(TOPICS) or b"")


async def test_a_member_beside_the_topics_is_durable_when_put_returns_and_comes_with_them(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        topics = store.tables.topics
        assert topics.member("mapping") is None
        await topics.put_member("mapping", {"T": {"0": [1]}}, [TopicConfig("T")])
        # Whoever tells others of a version during the write has not told them of the member.
        assert topics.data_version.counter == 2
        after_power_loss = files.reboot("power").read_all(TOPICS) or b""
        assert b'"mapping"' in after_power_loss
        assert b'"topicName":"T"' in after_power_loss
    async with open_small() as store:
        assert store.tables.topics.member("mapping") == {"T": {"0": [1]}}
        assert store.tables.topics.get("T") == TopicConfig("T")


async def test_a_member_that_cannot_be_written_leaves_all_as_it_was(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        topics = store.tables.topics
        await topics.put_member("mapping", {"T": 1}, [TopicConfig("T")])
        files.space_bytes = 0
        with pytest.raises(OSError, match="No space left"):
            await topics.put_member("mapping", {"T": 2}, [TopicConfig("T", 1), TopicConfig("U")])
        assert topics.member("mapping") == {"T": 1}
        assert topics.get("T") == TopicConfig("T")
        assert topics.get("U") is None
        files.space_bytes = None


async def test_a_user_of_the_store_may_keep_a_document_beside_the_tables(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        document = store.document("journal.json")
        assert document.load(after_crash=True) == {}
        document.write({"entries": [1]})
        await document.sync()
        assert files.reboot("power").exists(CONFIG / "journal.json")
        assert store.document("journal.json").load(after_crash=True) == {"entries": [1]}


class Walked(dict[str, object]):
    """JSON that counts how often it is written."""

    times = 0

    def items(self) -> Any:  # noqa: ANN401 - a view of the dict
        self.times += 1
        return super().items()


async def test_a_change_beside_the_topics_writes_anew_what_changed_only(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        topics = store.tables.topics
        mappings = {
            f"T{n}": Walked({"0": [{"a": n, "b": None, "c": []}], "1": {}}) for n in range(9)
        }
        mappings["none"] = None  # type: ignore[assignment]
        await topics.put_member("mapping", mappings)
        for counter in range(1, 4):
            changed = Walked({"0": [counter]})
            mappings = mappings | {"T1": changed}
            await topics.put_member("mapping", mappings)
            await topics.put_member("other", {"T1": counter})
            assert changed.times == 1
        assert {mappings[f"T{n}"].times for n in range(9)} == {1}
        members = fastjson.loads(topics_written(files))
        assert isinstance(members, dict)
        assert members["mapping"]["T1"] == {"0": [3]}
        assert members["other"] == {"T1": 3}
        whole = dict(sorted({**members, "mapping": mappings}.items()))
        assert topics_written(files) == fastjson.dumps(whole, pretty=True)
        await topics.put_member("mapping", {"T8": mappings["T8"]})
        assert fastjson.loads(topics_written(files))["mapping"].keys() == {"T8"}  # type: ignore[index]
