"""The commands for logical queues, on a cluster in memory: what they do and what they print."""

import importlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from trio.testing import MockClock

from lanemq.sdk._tasks import open_quiet_nursery
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.cli import admin
from lanemq.testkit.sdk.cluster import Peer
from lanemq.testkit.sdk.logical import LogicalCluster
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import UnregisterBroker
from lanemq.wire.logical import SegmentState, progress_topic
from lanemq.wire.message import BROKER_STAGE_PREFIX, StageRecord, stage_group

T = "T"


class Console:
    """Runs commands, each in a run of its own, against brokers that outlive the runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster: LogicalCluster

        @asynccontextmanager
        async def opened(
            *, name_servers: str, timeout_s: float, **access: object
        ) -> AsyncIterator[AdminClient]:
            async with open_quiet_nursery() as nursery:
                self._live_in(nursery)
                async with open_admin(
                    name_servers=name_servers, timeout_s=timeout_s, dial=self.cluster.dial
                ) as client:
                    yield client
                nursery.cancel_scope.cancel()

        # By its name: the package has a variable of the same one.
        module = importlib.import_module("lanemq.sdk.admin.cli.command._command")
        monkeypatch.setattr(module, "open_admin", opened)
        run = trio.run

        def run_at_once(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as trio's
            return run(*args, clock=MockClock(autojump_threshold=0), **options)

        monkeypatch.setattr(trio, "run", run_at_once)
        trio.run(self._make)

    async def _make(self) -> None:
        async with trio.open_nursery() as nursery:
            self.cluster = LogicalCluster(nursery, brokers=2)

    def _live_in(self, nursery: trio.Nursery) -> None:
        self.cluster.nursery = nursery
        for node in self.cluster.nodes.values():
            node.nursery = nursery

    def fill(self, index: int, count: int) -> None:
        """Put messages where a logical queue ends."""
        segment = self.cluster.chain(T, index).writable
        assert segment is not None

        async def put() -> None:
            for number in range(count):
                broker = self.cluster.by_name[segment.broker_name]
                broker.put(T, segment.queue_id, b"%d" % number)

        trio.run(put)

    def run(self, *args: str, status: int = 0) -> list[str]:
        """The lines that a command prints."""
        if "--num" not in args:
            args = (*args, "-n", self.cluster.name_servers)
        else:
            args = (*args, "--namesrvAddr", self.cluster.name_servers)
        result = CliRunner().invoke(admin, args)
        assert result.exit_code == status, result.output
        return [line.rstrip() for line in result.output.splitlines()]

    def value(self, *args: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads("\n".join(self.run(*args, "--json")))

    def rows(self, *args: str) -> list[list[str]]:
        """The chains' table at the end of what a command prints."""
        lines = self.run(*args)
        start = next(n for n, line in enumerate(lines) if line.startswith("#LogicalQueue"))
        return [line.split() for line in lines[start + 1 :]]


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    return Console(monkeypatch)


@pytest.fixture
def mapped(console: Console) -> Console:
    """Topic T with two queues on each of two brokers, all of them logical ones."""
    console.run("updateTopic", "-c", "c", "-t", T, "-r", "2", "-w", "2", "-lq", "true")
    return console


DOCS = Path(__file__).parents[2] / "docs" / "logical-queues.md"


def test_the_example_of_the_docs_is_what_the_command_prints(console: Console) -> None:
    page = DOCS.read_text()
    shown = page[page.index("queue 0 at broker1") :].split("```")[0].splitlines()
    args = ("updateTopic", "-c", "c", "-t", T, "-r", "2", "-w", "2", "-lq", "true")
    printed = console.run(*args)
    printed = printed[next(n for n, line in enumerate(printed) if line.startswith("queue 0")) :]

    def told(line: str) -> list[str]:
        names = line.replace("broker-a", "broker1").replace("broker-b", "broker2")
        return re.sub(r"\(\S+\)", "", names).split()

    assert [told(line) for line in printed] == [told(line) for line in shown]


TABLE_A = [
    ["0", "broker-a", "0", "0", "0", "-1", "Normal"],
    ["1", "broker-a", "1", "0", "0", "-1", "Normal"],
    ["2", "broker-b", "0", "0", "0", "-1", "Normal"],
    ["3", "broker-b", "1", "0", "0", "-1", "Normal"],
]


def test_a_topic_is_made_with_logical_queues(console: Console) -> None:
    args = ("updateTopic", "-c", "c", "-t", T, "-r", "2", "-w", "2", "-lq", "true")
    assert console.rows(*args) == TABLE_A
    assert not console.value("updateTopicLogicalQueueMapping", "-t", T, "-c", "c")


def test_logical_queues_are_made_on_all_masters_only(console: Console) -> None:
    args = ("updateTopic", "-b", "10.0.1.1:10911", "-t", T, "-lq", "true")
    (line,) = console.run(*args, status=1)
    assert line == "Error: -lq and -b can not be used together."


def test_one_queue_is_mapped_by_hand(console: Console) -> None:
    console.run("updateTopic", "-c", "c", "-t", T, "-r", "1", "-w", "1")
    by_hand = ("updateTopicLogicalQueueMapping", "-t", T, "-b", "10.0.1.2:10911")
    assert console.run(*by_hand, "-q", "0", "-i", "7") == [
        "queue 0 at 10.0.1.2:10911 is logical queue 7: set up"
    ]
    taken_out = (*by_hand, "-q", "0", "-i", "-1")
    console.cluster.by_name["broker-b"].queue(T, 0).records.append(b"x")
    (line,) = console.run(*taken_out, status=1)
    assert "has messages" in line
    (line,) = console.run(*taken_out, "--force")
    assert line == "queue 0 at 10.0.1.2:10911 is not a logical queue: deleted"
    (line,) = console.run(*by_hand, "-q", "0", "-i", "7", "--force", status=1)
    assert "--force is for taking one queue out" in line
    (line,) = console.run(*by_hand, "-q", "0", status=1)
    assert "logicalQueueIndex and queueId must be specified together." in line
    (line,) = console.run(*by_hand, status=1)
    assert "brokerAddr specified but no logicalQueueIndex and queueId found" in line


def test_nothing_is_mapped_while_a_broker_is_silent(console: Console) -> None:
    console.run("updateTopic", "-c", "c", "-t", T)
    broker = console.cluster.by_name["broker-b"]
    broker.refuse(RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING, 1)
    (line,) = console.run("updateTopicLogicalQueueMapping", "-t", T, "-c", "c", status=1)
    assert "injected" in line
    assert not broker.chains


def test_mappings_are_shown_by_broker_and_merged(mapped: Console) -> None:
    query = ("queryTopicLogicalQueueMapping", "-t", T)
    (line,) = mapped.run(*query, "-b", "10.0.1.1:10911")
    found = json.loads(line)
    assert list(found) == ["10.0.1.1:10911"]
    assert [s["state"] for s in found["10.0.1.1:10911"]["0"]] == ["Normal"]
    (line,) = mapped.run(*query, "-c", "c", "-m")
    assert [[s["messageQueue"]["brokerName"] for s in queue] for queue in json.loads(line)] == [
        *(["broker-a"], ["broker-a"]),
        *(["broker-b"], ["broker-b"]),
    ]


def test_a_topic_without_logical_queues_has_no_mappings_to_show(console: Console) -> None:
    console.run("updateTopic", "-c", "c", "-t", "plain")
    for topic in ("plain", "nope"):
        for more in ((), ("-m",)):
            query = ("queryTopicLogicalQueueMapping", "-t", topic, "-c", "c", *more)
            (line,) = console.run(*query, status=1)
            assert line == (
                f"Error: topic {topic!r} has no logical queues at 10.0.1.1:10911, 10.0.1.2:10911"
            )


def test_more_logical_queues_than_brokers_can_have_are_refused_before_anything_is_made(
    mapped: Console,
) -> None:
    number = ("updateTopicLogicalQueueNum", "-t", T, "-c", "c", "--num")
    (line,) = mapped.run(*number, "5000", status=1)
    assert line == (
        "Error: T can have at most 4096 logical queues here: a topic has at most 2048 queues at a "
        "broker"
    )
    assert mapped.run(*number, "4")[0] == "T has 4 logical queues already"


def test_a_mapping_with_queues_left_is_not_deleted(mapped: Console) -> None:
    (line,) = mapped.run("deleteTopicLogicalQueueMapping", "-t", T, "-c", "c", status=1)
    assert "still 2 message queues" in line
    for broker in mapped.cluster.by_name.values():
        broker.chains.clear()
    lines = mapped.run("deleteTopicLogicalQueueMapping", "-t", T, "-c", "c")
    assert lines == [
        f"delete logical queue mapping of T at 10.0.1.{n}:10911: deleted" for n in (1, 2)
    ]


def test_the_number_has_n_and_the_name_server_the_long_option(mapped: Console) -> None:
    change = ("updateTopicLogicalQueueNum", "-t", T, "-c", "c")
    mapped.fill(3, 5)
    lines = mapped.run(*change, "--num", "3")
    assert lines[0] == "logical queue 3: closed at broker-b, at logical offset 5"
    assert mapped.cluster.chain(T, 3).writable is None
    lines = mapped.run(*change, "--num", "5")
    assert lines[:2] == [
        "logical queue 3: queue 2 at broker-b, from logical offset 5",
        "logical queue 4: queue 2 at broker-a, from logical offset 0",
    ]
    assert mapped.run(*change, "--num", "5")[0] == "T has 5 logical queues already"
    result = CliRunner().invoke(admin, [*change, "-n", "5"], env={"NAMESRV_ADDR": ""})
    assert "no name server" in result.output


def test_a_migration_prints_its_steps_and_the_chain(mapped: Console) -> None:
    mapped.fill(0, 101)
    lines = mapped.run("migrateTopicLogicalQueue", "-t", T, "-i", "0", "-b", "broker-b")
    assert lines[:4] == [
        "created queue 2 at broker-b",
        "sealed queue 0 at broker-a: offset 101, logical offset 101",
        "committed queue 2 at broker-b",
        "told broker-a where logical queue 0 goes on",
    ]
    assert [line.split() for line in lines[5:]] == [
        ["0", "broker-a", "0", "0", "0", "101", "ReadOnly"],
        ["0", "broker-b", "2", "101", "0", "-1", "Normal"],
    ]


@pytest.mark.parametrize(
    ("topic", "index", "broker", "said"),
    [
        ("other", "0", "broker-a", "topic other not enabled logical queue"),
        (T, "9", "broker-a", "logical queue 9 not exist"),
        (T, "0", "broker-z", "destination broker broker-z not found"),
        (T, "0", "broker-a", "logical queue 0 ends at broker-a already"),
    ],
)
def test_a_migration_that_cannot_be_says_why(
    mapped: Console, topic: str, index: str, broker: str, said: str
) -> None:
    args = ("migrateTopicLogicalQueue", "-t", topic, "-i", index, "-b", broker)
    (line,) = mapped.run(*args, status=1)
    assert said in line


def test_a_closed_logical_queue_cannot_be_migrated(mapped: Console) -> None:
    mapped.fill(3, 1)
    mapped.run("updateTopicLogicalQueueNum", "-t", T, "-c", "c", "--num", "3")
    args = ("migrateTopicLogicalQueue", "-t", T, "-i", "3", "-b", "broker-a")
    (line,) = mapped.run(*args, status=1)
    assert "logical queue 3 not writable, can not migrate" in line


MIGRATE = ("migrateTopicLogicalQueue", "-t", T, "-i", "0", "-b", "broker-b")
RESUME = ("resumeMigrateTopicLogicalQueue", "-t", T, "-i", "0")
ABORT = ("abortMigrateTopicLogicalQueue", "-t", T, "-i", "0")
Code = RequestCode
STEPS = {
    Code.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE: "broker-b",
    Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE: "broker-a",
    Code.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT: "broker-b",
    Code.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY: "broker-a",
}
REFUSED = "refused before it was done"
LOST = "done, the answer lost"


@pytest.mark.slow
@pytest.mark.parametrize("how", [REFUSED, LOST])
@pytest.mark.parametrize("code", STEPS, ids=lambda code: code.name.lower())
@pytest.mark.parametrize("again", [MIGRATE, RESUME], ids=["again", "resume"])
def test_an_interrupted_migration_is_finished(
    mapped: Console, code: RequestCode, how: str, again: tuple[str, ...]
) -> None:
    mapped.fill(0, 10)
    node = mapped.cluster.by_name[STEPS[code]]
    if how is REFUSED:
        node.refuse(code, 1)
    else:
        node.mute(code)
    is_last = code == Code.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY
    mapped.run(*MIGRATE, status=0 if is_last else 1)
    nothing_begun = how is REFUSED and code == Code.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE
    done = is_last or (how is LOST and code == Code.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT)
    unfinished = not (done and how is LOST and is_last)
    if again is RESUME:
        mapped.run(*again, status=1 if nothing_begun or not unfinished else 0)
    else:
        mapped.run(*again, status=1 if done else 0)
    if nothing_begun and again is RESUME:
        return
    chain = mapped.cluster.chain(T, 0)
    assert [(s.broker_name, s.delta, s.offset_max, s.state) for s in chain] == [
        ("broker-a", 0, 10, SegmentState.READ_ONLY),
        ("broker-b", 10, -1, SegmentState.NORMAL),
    ]


def test_a_migration_that_was_begun_is_called_off(mapped: Console) -> None:
    mapped.cluster.by_name["broker-a"].refuse(Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE, 1)
    mapped.run(*MIGRATE, status=1)
    assert mapped.run(*ABORT)[0] == "abort at broker-b, queue 2: deleted"
    assert [s.state for s in mapped.cluster.chain(T, 0) if not s.is_sealed] == ["Normal"]
    for command in (ABORT, RESUME):
        (line,) = mapped.run(*command, status=1)
        assert "logical queue 0 of T is not being migrated" in line


def test_the_second_of_two_migrations_is_told_of_the_first(mapped: Console) -> None:
    mapped.cluster.by_name["broker-a"].refuse(Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE, 1)
    mapped.run(*MIGRATE, status=1)
    trio.run(_one_more_broker, mapped)
    args = ("migrateTopicLogicalQueue", "-t", T, "-i", "0", "-b", "broker-c")
    (line,) = mapped.run(*args, status=1)
    assert "migration in progress" in line
    assert "broker-b" in line


def test_the_later_of_two_migrations_leaves_nothing_behind(mapped: Console) -> None:
    source = mapped.cluster.by_name["broker-a"]
    prepare = source.handlers[Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE]

    def quicker(frame: Frame, peer: Peer) -> Frame | None:
        raise Refused(1, "migration in progress")

    source.handlers[Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE] = quicker
    lines = mapped.run(*MIGRATE, status=1)
    assert lines[1] == "abort at broker-b, queue 2: deleted"
    assert mapped.cluster.chain(T, 0).write_only is None
    source.handlers[Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE] = prepare
    mapped.run(*MIGRATE)


async def _one_more_broker(console: Console) -> None:
    async with trio.open_nursery() as nursery:
        console._live_in(nursery)
        console.cluster.add_logical_broker()


def test_a_source_that_is_gone_needs_the_offset(mapped: Console) -> None:
    mapped.fill(0, 10)
    mapped.cluster.by_name["broker-a"].reachable = False
    (line,) = mapped.run(*MIGRATE, status=1)
    assert "unexpected source broker name broker-a not found" in line
    assert "-fd" in line
    lines = mapped.run(*MIGRATE, "-fd", "200")
    assert "broker-a is not asked: logical offset 200 is forced" in lines
    assert mapped.cluster.chain(T, 0)[-1].delta == 200


def test_a_drained_broker_says_when_it_can_be_switched_off(mapped: Console) -> None:
    for index in range(4):
        mapped.fill(index, 101)
    plan = mapped.run("drainBroker", "-b", "broker-b", "--dry-run")
    assert [line.split() for line in plan[1:]] == [
        ["T", "2", "broker-b", "broker-a"],
        ["T", "3", "broker-b", "broker-a"],
    ]
    lines = mapped.run("drainBroker", "-b", "broker-b")
    assert lines[:2] == [
        "[1/2] T logical queue 2: broker-b -> broker-a, from logical offset 101",
        "[2/2] T logical queue 3: broker-b -> broker-a, from logical offset 101",
    ]
    assert lines[2].startswith("broker-b can be switched off once nobody reads it any more")
    assert "fileReservedTime=72 h" in lines[2]
    for index in (2, 3):
        trio.run(_expire, mapped, index)
    assert mapped.run("drainBroker", "-b", "broker-b") == [
        "broker-b can be switched off now: nothing needs it"
    ]


def test_a_drain_takes_along_the_progress_that_migrations_left_behind(mapped: Console) -> None:
    mapped.fill(2, 10)
    source = mapped.cluster.by_name["broker-b"]
    source.offsets["g", progress_topic(T, 0), 2] = 7
    source.offsets["old", T, 0] = 10  # it read the physical queue that logical queue 2 began as
    lines = mapped.run("drainBroker", "-b", "broker-b")
    assert "2 offsets of groups were taken along to where their queues end" in lines
    there = mapped.cluster.by_name["broker-a"].offsets
    assert (there["g", progress_topic(T, 10), 2], there["old", progress_topic(T, 10), 2]) == (7, 10)
    there["g", progress_topic(T, 10), 2] = 3  # what is known where the queue ends is the latest
    assert not any("taken along" in line for line in mapped.run("drainBroker", "-b", "broker-b"))
    assert there["g", progress_topic(T, 10), 2] == 3


@pytest.mark.parametrize("shadow", [stage_group("g"), BROKER_STAGE_PREFIX + "g"])
def test_a_drain_takes_stage_records_along_as_they_are(mapped: Console, shadow: str) -> None:
    """They are not offsets: cut to the end of a segment they would say something else."""
    mapped.fill(2, 10)
    record = StageRecord(7, 3).pack()
    mapped.cluster.by_name["broker-b"].offsets[shadow, progress_topic(T, 0), 2] = record
    mapped.run("drainBroker", "-b", "broker-b")
    assert mapped.cluster.by_name["broker-a"].offsets[shadow, progress_topic(T, 10), 2] == record


async def _expire(console: Console, index: int) -> None:
    console.cluster.by_name["broker-b"].expire(T, index)


def test_a_broker_with_topics_of_other_kinds_is_not_called_empty(mapped: Console) -> None:
    mapped.run("updateTopic", "-c", "c", "-t", "plain")
    lines = mapped.run("drainBroker", "-b", "broker-b")
    assert lines[-1] == "topics without logical queues are still there: plain"
    (line,) = mapped.run("drainBroker", "-b", "broker-z", status=1)
    assert "broker 'broker-z' not found: the masters that answer are: broker-a, broker-b" in line


def test_only_a_broker_that_is_gone_is_forgotten(mapped: Console) -> None:
    (line,) = mapped.run("forgetBroker", "-b", "broker-b", status=1)
    assert "broker 'broker-b' is registered: `drainBroker -b broker-b`" in line
    mapped.cluster.by_name["broker-b"].reachable = False
    (server,) = mapped.cluster.name_server_nodes
    asked: list[UnregisterBroker] = []

    def take(frame: Frame, peer: Peer) -> Frame:
        asked.append(UnregisterBroker.from_fields(frame.fields))
        return frame.reply()

    server.handlers[Code.UNREGISTER_BROKER] = take
    assert mapped.run("forgetBroker", "-b", "broker-b") == [
        "broker-b is forgotten: queues are shown without what was on it"
    ]
    assert asked == [UnregisterBroker("broker-b", "", "", 0, forget_logical_queues=True)]


def test_a_broker_that_no_name_server_knows_is_not_forgotten(mapped: Console) -> None:
    (server,) = mapped.cluster.name_server_nodes

    def refuse(frame: Frame, peer: Peer) -> Frame:
        raise Refused(ResponseCode.QUERY_NOT_FOUND, "no such broker")

    server.handlers[Code.UNREGISTER_BROKER] = refuse
    assert mapped.run("forgetBroker", "-b", "broker-z", status=1) == [
        "Error: no name server knows a broker 'broker-z', so nothing was forgotten"
    ]


def test_a_drain_that_fails_in_part_goes_on_and_says_so(mapped: Console) -> None:
    mapped.cluster.by_name["broker-b"].refuse(Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE, 1)
    lines = mapped.run("drainBroker", "-b", "broker-b", status=1)
    assert "1 of 2 logical queues stay at broker-b: call it again" in lines[-1]
    assert mapped.run("drainBroker", "-b", "broker-b")[0].startswith("[1/1] T logical queue 2")


def test_a_queue_whose_destination_waits_is_not_closed(mapped: Console) -> None:
    mapped.fill(3, 5)
    prepare = Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE
    mapped.cluster.by_name["broker-b"].refuse(prepare, 1)
    mapped.run("migrateTopicLogicalQueue", "-t", T, "-i", "3", "-b", "broker-a", status=1)
    lines = mapped.run("updateTopicLogicalQueueNum", "-t", T, "-c", "c", "--num", "3", status=1)
    assert any("logical queue 3 is on its way to broker-a" in line for line in lines), lines
    chain = mapped.cluster.chain(T, 3)
    assert [s.state.value for s in chain] == ["Normal", "WriteOnly"]
    mapped.run("abortMigrateTopicLogicalQueue", "-t", T, "-i", "3")
    mapped.run("updateTopicLogicalQueueNum", "-t", T, "-c", "c", "--num", "3")
    assert (mapped.cluster.chain(T, 3).writable, mapped.cluster.chain(T, 3).known_end) == (None, 5)


def test_a_new_broker_gets_its_share(mapped: Console) -> None:
    trio.run(_one_more_broker, mapped)
    lines = mapped.run("balanceLogicalQueues")
    assert lines[-1] == "1 migrations would do it; --apply makes them"
    assert lines[1].split() == ["T", "3", "broker-b", "broker-c"]
    assert mapped.cluster.chain(T, 3).normal == mapped.cluster.chain(T, 3)[0]
    lines = mapped.run("balanceLogicalQueues", "--apply")
    assert lines == ["[1/1] T logical queue 3: broker-b -> broker-c, from logical offset 0"]
    assert mapped.cluster.by_name["broker-c"].topics[T] == 1
    assert mapped.run("balanceLogicalQueues", "-t", T) == ["nothing has to be moved"]
    (line,) = mapped.run("balanceLogicalQueues", "-t", "other", status=1)
    assert "topic 'other' has no logical queues" in line
