"""An index of a logical queue is given out once, whoever is away and however many tools ask."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import LanemqError
from lanemq.testkit.logical.cluster import LogicalCluster, open_logical_cluster
from lanemq.testkit.logical.mapped import tools
from lanemq.testkit.sdk.admin import IndicesUnknown, claim_indices, survey
from lanemq.testkit.simulation._clients import TOPIC as SIMULATED
from lanemq.testkit.simulation._deeds import Deeds
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import ClaimLogicalIndices

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
