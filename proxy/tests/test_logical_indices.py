"""An index of a logical queue is given out once, whoever is away and however many tools ask."""

from collections.abc import Callable
from random import Random
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.broker.logical.migration import _indices
from lanemq.proxy.broker.logical.migration._indices import CLAIMS_MAX, MEMBER, LogicalIndices
from lanemq.proxy.broker.logical.state._state import LogicalState
from lanemq.sdk import LanemqError
from lanemq.storage import TopicTable
from lanemq.testkit.logical.cluster import LogicalCluster, open_logical_cluster
from lanemq.testkit.logical.mapped import tools
from lanemq.testkit.sdk.admin import IndicesUnknown, claim_indices, survey
from lanemq.testkit.simulation._clients import TOPIC as SIMULATED
from lanemq.testkit.simulation._deeds import Deeds
from lanemq.wire import Refused, fastjson
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import ClaimedLogicalIndices, ClaimLogicalIndices

NAMES = ("broker1", "broker2", "broker3")


async def put_topic(cluster: LogicalCluster, queues: int) -> None:
    config = TopicConfig(SIMULATED, read_queue_nums=queues, write_queue_nums=queues)
    async with tools(cluster) as admin:
        for broker in cluster.brokers.values():
            if broker.is_up:
                await admin.put_topic(broker.address, config)


async def restart_name_server(cluster: LogicalCluster) -> None:
    await cluster.name_server.kill()
    await cluster.name_server.start()
    await trio.sleep(60)


async def indices_at(cluster: LogicalCluster, name: str) -> set[int]:
    """The logical queues that began at a broker."""
    mapping = cluster.brokers[name].running.context.logical.mappings[SIMULATED]
    return {segment.logical_index for segment in mapping.own()}


async def test_an_index_of_a_broker_that_nobody_remembers_is_not_given_out_again(
    autojump_clock: MockClock,
) -> None:
    async with open_logical_cluster(*NAMES) as cluster:
        await put_topic(cluster, 1)
        async with tools(cluster) as admin:
            assert await admin.map_logical_queues(SIMULATED) == 3
            await cluster.brokers["broker3"].kill()
            await restart_name_server(cluster)
            # The name server has forgotten broker3, and what was on it.
            await Deeds(Random(0), 2, list(NAMES)).number(admin, 3)
            await put_topic(cluster, 2)
            await admin.map_logical_queues(SIMULATED)
        await cluster.brokers["broker3"].restart("kill")
        owned = [await indices_at(cluster, name) for name in NAMES]
        assert owned[2] == {2}
        assert sum(map(len, owned)) == len(set().union(*owned))


async def test_a_minority_of_the_brokers_gives_out_no_index(autojump_clock: MockClock) -> None:
    async with open_logical_cluster(*NAMES) as cluster:
        await put_topic(cluster, 1)
        async with tools(cluster) as admin:
            await admin.map_logical_queues(SIMULATED)
            for name in ("broker2", "broker3"):
                await cluster.brokers[name].kill()
            await restart_name_server(cluster)
            await put_topic(cluster, 2)
            with pytest.raises(IndicesUnknown, match="broker2, broker3, which are not there"):
                await admin.map_logical_queues(SIMULATED)


async def test_of_two_tools_at_once_none_gets_the_other_s_index(autojump_clock: MockClock) -> None:
    async with open_logical_cluster(*NAMES) as cluster:
        await put_topic(cluster, 1)
        async with tools(cluster) as admin:
            await admin.map_logical_queues(SIMULATED)
        given: list[int] = []

        async def claim(number: int, name: str) -> None:
            async with tools(cluster, f"10.0.9.{number}") as admin:
                view = (await survey(admin, SIMULATED)).view
                for _ in range(4):
                    given.extend(await claim_indices(admin.claim_indices, view, [name, name]))

        async with trio.open_nursery() as nursery:
            for number, name in enumerate(("broker1", "broker3"), 8):
                nursery.start_soon(claim, number, name)
        # What is claimed for a broker and not used is given to it again.
        assert len(set(given)) == 4
        assert given.count(3) in (0, 4)
        broker = cluster.brokers["broker2"]
        await broker.kill()
        await broker.restart("power")
        async with tools(cluster) as admin:
            view = (await survey(admin, SIMULATED)).view
            (fresh,) = await claim_indices(admin.claim_indices, view, ["broker2"])
        assert fresh == max(given) + 1


async def test_a_broker_refuses_an_index_that_has_another_owner(
    autojump_clock: MockClock,
) -> None:
    async with open_logical_cluster(*NAMES) as cluster:
        await put_topic(cluster, 1)
        async with tools(cluster) as admin:
            address = cluster.brokers["broker1"].address
            mine = ClaimLogicalIndices(SIMULATED, {0: "broker2", 1: "broker3"}, NAMES)
            await admin.claim_indices(address, mine)
            await admin.claim_indices(address, mine)
            late = ClaimLogicalIndices(SIMULATED, {2: "broker1", 1: "broker1"}, NAMES)
            with pytest.raises(LanemqError, match=r"logical queue 1 .*, to broker3"):
                await admin.claim_indices(address, late)
            said = await admin.claim_indices(address, ClaimLogicalIndices(SIMULATED))
    assert said.claims == {0: "broker2", 1: "broker3"}


class KeptTopics:
    """A table of topics in memory, with what is kept beside it."""

    def __init__(self, topics: list[str], kept: dict[str, object] | None = None) -> None:
        self.configs = {topic: TopicConfig(topic) for topic in topics}
        self.kept = kept
        self.while_written: Callable[[], None] = lambda: None

    def get(self, name: str) -> TopicConfig | None:
        return self.configs.get(name)

    def member(self, name: str) -> object:
        assert name == MEMBER
        return self.kept

    async def put_member(self, name: str, value: dict[str, object]) -> None:
        assert name == MEMBER
        await trio.lowlevel.checkpoint()
        self.while_written()
        self.kept = cast(dict[str, object], fastjson.loads(fastjson.dumps(value)))


def as_read(one: ClaimedLogicalIndices) -> object:
    return fastjson.loads(one.encode())


class NoMappings:
    """The logical queues of a broker that has none."""

    def get(self, topic: str) -> None:
        return None


def indices_over(table: KeptTopics) -> LogicalIndices:
    return LogicalIndices(logical=cast(LogicalState, NoMappings()), topics=cast(TopicTable, table))


async def test_a_topic_that_is_not_there_gets_no_claims_and_says_how_often_it_was_deleted() -> None:
    """A broker that finds out whether a topic was deleted asks brokers that have it no more."""
    gone = ClaimedLogicalIndices({0: "a"}, ("a",), deletions=1)
    table = KeptTopics(["here"], {"gone": as_read(gone)})
    indices = indices_over(table)
    written = table.kept
    for topic in ("gone", "never"):
        with pytest.raises(Refused, match="topic not exist"):
            await indices.claim(ClaimLogicalIndices(topic, {0: "a"}, ("a",)))
    assert table.kept is written
    assert await indices.claim(ClaimLogicalIndices("gone")) == ClaimedLogicalIndices(deletions=2)
    assert await indices.claim(ClaimLogicalIndices("never")) == ClaimedLogicalIndices()
    await indices.claim(ClaimLogicalIndices("here", {0: "a"}, ("a",)))
    assert table.kept is not None
    assert set(table.kept) == {"here", "gone"}
    again = indices_over(table)
    assert [again.of(topic) for topic in table.kept] == [indices.of(topic) for topic in table.kept]


async def test_a_topic_has_so_many_claims_and_no_more() -> None:
    indices = indices_over(KeptTopics(["t"]))
    claims = dict.fromkeys(range(CLAIMS_MAX), "a")
    await indices.claim(ClaimLogicalIndices("t", claims, ("a",)))
    with pytest.raises(Refused, match=f"at most {CLAIMS_MAX}"):
        await indices.claim(ClaimLogicalIndices("t", {CLAIMS_MAX: "a"}, ("a",)))
    known = await indices.claim(ClaimLogicalIndices("t", {0: "a"}, ("a", "b")))
    assert (len(known.claims), known.brokers) == (CLAIMS_MAX, ("a", "b"))


async def test_a_topic_that_is_deleted_while_its_claims_are_written_keeps_none() -> None:
    table = KeptTopics(["t"])
    indices = indices_over(table)
    await indices.claim(ClaimLogicalIndices("t", {0: "a"}, ("a",)))
    table.while_written = lambda: indices.forget("t")
    await indices.claim(ClaimLogicalIndices("t", {1: "a"}, ("a",)))
    table.while_written = lambda: None
    await indices.keep()
    assert indices.of("t") == ClaimedLogicalIndices(deletions=1)
    assert table.kept == {"t": as_read(ClaimedLogicalIndices(deletions=1))}


@pytest.mark.parametrize("has_claims", [True, False])
def test_a_start_looks_at_each_topic_that_is_gone_a_few_times(
    monkeypatch: pytest.MonkeyPatch, *, has_claims: bool
) -> None:
    looks = 0

    class Counted(ClaimedLogicalIndices):
        def __getattribute__(self, name: str) -> object:
            nonlocal looks
            looks += name == "claims"
            return super().__getattribute__(name)

    monkeypatch.setattr(_indices, "ClaimedLogicalIndices", Counted)
    monkeypatch.setattr(_indices, "DELETED_MAX", 300)
    claims = {0: "a"} if has_claims else {}
    one = as_read(ClaimedLogicalIndices(claims, deletions=1))
    kept = {f"t{n}": one for n in range(500)}
    indices = indices_over(KeptTopics([], kept))
    left = [topic for topic in kept if indices.of(topic) is not None]
    assert left == [f"t{n}" for n in range(200 if has_claims else 0, 500)]
    assert looks < 20 * len(kept)
