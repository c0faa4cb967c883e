"""Queues that migrate back and forth under load, and brokers that die meanwhile."""

from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Final, final

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.logical.cluster import (
    CLIENT_HOST,
    PREVIEW,
    TOPIC,
    LogicalCluster,
    messages_of,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import Client, send_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import RequestCode
from lanemq.wire.bodies import RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    Chain,
    CreateQueueForLogicalQueue,
    LogicalQueues,
    MigrateLogicalQueue,
    Redirect,
    Segment,
    SegmentState,
    check_queues,
)

GONE: Final = (EOFError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)
ROUNDS: Final = 3
SEEDS: Final = 3


class Caller:
    """Calls by name, over connections of its own, that may break at any time."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self._clients: dict[str, Client] = {}

    async def call(
        self, name: str, code: int, fields: dict[str, str], body: bytes = b""
    ) -> Frame | None:
        """The answer of a broker, or of the name server; None where there is none."""
        client = self._clients.pop(name, None)
        with trio.move_on_after(15), suppress(*GONE):
            if client is None:
                client = await self._dial(name)
            answer = await client.call(code, fields, body)
            self._clients[name] = client
            return answer
        return None

    async def _dial(self, name: str) -> Client:
        cluster = self.cluster
        dial = cluster.network.dialer(CLIENT_HOST)
        if name == "name server":
            return Client(Peer(await dial(cluster.name_server.host, 9876)), version=PREVIEW)
        return await cluster.connect(name)

    async def step(self, name: str, code: int, body: bytes) -> Frame | None:
        answer = await self.call(name, code, {}, body)
        return answer if answer is not None and answer.code == 0 else None


@final
class Producer(Caller):
    """Sends number after number to one logical queue, as clients of 5.0.0-PREVIEW do."""

    def __init__(self, cluster: LogicalCluster, name: str, index: int) -> None:
        super().__init__(cluster)
        self.name = name
        self.index = index
        self.chain = Chain(index)
        self.acknowledged: list[tuple[int, int]] = []
        """Number, logical offset (-1 where it was not known)."""
        self.enough = False

    async def run(self) -> None:
        number = 0
        while not self.enough:
            await self._send(number)
            number += 1

    async def refresh(self) -> None:
        header = GetRouteInfo(topic=TOPIC, sys_flag=LOGICAL_QUEUE_FLAG)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        answer = await self.call("name server", code, header.to_fields())
        if answer is not None and answer.code == 0:
            queues = LogicalQueues.of_route(RouteData.decode(answer.body).extra)
            if queues is not None:
                self.chain = queues.get(self.index) or Chain(self.index)

    async def _send(self, number: int) -> None:
        for _ in range(ROUNDS):
            target = self.chain.writable
            if target is None:
                await self.refresh()
                await trio.sleep(0.2)
                continue
            header = send_header(TOPIC, queue_id=target.queue_id, sys_flag=LOGICAL_QUEUE_FLAG)
            answer = await self.call(
                target.broker_name,
                RequestCode.SEND_MESSAGE_V2,
                header.to_letters(),
                f"{self.name} {number}".encode(),
            )
            if answer is None:
                await trio.sleep(0.2)
                await self.refresh()
            elif REDIRECT_FIELD in answer.fields:
                redirect = Redirect.decode(answer.body)
                assert redirect is not None
                self.chain = self.chain.put(redirect.current, redirect.following)
            elif answer.code == 0:
                offset = target.to_logical(int(answer.fields["queueOffset"]))
                self.acknowledged.append((number, offset))
                return
            else:
                await trio.sleep(0.1)


@final
class Operator(Caller):
    """Migrates queues as a tool does, takes up what was left, and gives up where nobody answers."""

    async def account(self, name: str, index: int) -> Chain | None:
        code = RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING
        answer = await self.call(name, code, {"topic": TOPIC})
        if answer is None:
            return None
        queues = LogicalQueues.decode(answer.body)
        return (queues.get(index) if queues is not None else None) or Chain(index)

    async def migrate(self, index: int, name: str) -> bool:
        source = None
        for other in self.cluster.brokers:
            account = await self.account(other, index)
            normal = account.normal if account is not None else None
            if normal is not None and normal.broker_name == other != name:
                source = normal
        account = await self.account(name, index)
        if source is None or account is None:
            return False
        target = account.write_only
        if target is None or target.broker_name != name:
            body = CreateQueueForLogicalQueue(TOPIC, index, SegmentState.WRITE_ONLY).encode()
            code = RequestCode.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE
            answer = await self.step(name, code, body)
            if answer is None:
                return False
            target = Segment.decode(answer.body)
        for host, code in (
            (source.broker_name, RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE),
            (name, RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT),
            (source.broker_name, RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY),
        ):
            answer = await self.step(host, code, MigrateLogicalQueue(source, target).encode())
            if answer is None:
                return False
            if answer.body:
                move = MigrateLogicalQueue.decode(answer.body)
                assert move.source is not None
                assert move.destination is not None
                source, target = move.source, move.destination
        return True


async def stored(cluster: LogicalCluster, chain: Chain) -> dict[int, str]:
    """Logical offset -> what is there, read from each segment in turn."""
    found: dict[int, str] = {}
    for segment in chain.readable:
        offset = segment.offset_delta
        while segment.keeps(offset):
            answer = await cluster.pull(segment, offset)
            for message in messages_of(answer):
                found[segment.to_logical(message.queue_offset)] = message.body.decode()
            if answer.code == 19:
                break
            offset = int(answer.fields["nextBeginOffset"])
    return found


async def check(cluster: LogicalCluster, index: int, producers: list[Producer]) -> int:
    """Everything that was acknowledged is there, where it was said to be and in order."""
    segments = []
    for name in cluster.brokers:
        segments += [s for s in await cluster.chain(name, index) if s.broker_name == name]
    chain = Chain(index, segments)
    findings = check_queues(LogicalQueues([chain]))
    assert not findings, (findings, chain)
    assert [s.state for s in chain].count(SegmentState.NORMAL) == 1
    found = await stored(cluster, chain)
    assert sorted(found) == list(range(len(found)))
    places = defaultdict(list)
    for offset, text in found.items():
        places[text].append(offset)
    for producer in producers:
        last = -1
        for number, offset in producer.acknowledged:
            text = f"{producer.name} {number}"
            assert places[text], text
            if offset >= 0:
                assert found[offset] == text
            at = offset if offset >= 0 else places[text][0]
            assert at > last, text
            last = at
    return len(found)


@pytest.mark.slow
async def test_migrations_under_load_lose_nothing_and_keep_every_offset(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(seed=13) as cluster:
        producers = [Producer(cluster, f"p{number}", number % 2) for number in range(20)]
        operator = Operator(cluster)
        pauses: list[float] = []
        async with trio.open_nursery() as nursery:
            for producer in producers:
                nursery.start_soon(producer.run)
            await trio.sleep(0.3)
            for turn in range(25):
                for index in (0, 1):
                    to = "broker2" if (turn + index) % 2 == 0 else "broker1"
                    began_s = trio.current_time()
                    assert await operator.migrate(index, to)
                    pauses.append(trio.current_time() - began_s)
            for producer in producers:
                producer.enough = True
        for index in (0, 1):
            of_index = [producer for producer in producers if producer.index == index]
            assert await check(cluster, index, of_index) > 500
            for producer in of_index:
                assert all(offset >= 0 for _, offset in producer.acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_dies_under_load_the_queue_goes_on_where_it_was(
    autojump_clock: MockClock, seed: int
) -> None:
    rng = Random(seed)
    async with mapped_cluster("broker1", "broker2", "broker3", seed=seed) as cluster:
        producers = [Producer(cluster, f"p{number}", number % 3) for number in range(6)]
        operators = [Operator(cluster) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for producer in producers:
                nursery.start_soon(producer.run)

            async def operate(operator: Operator) -> None:
                for _ in range(8):
                    await trio.sleep(rng.expovariate(2))
                    await operator.migrate(rng.randrange(3), rng.choice(list(cluster.brokers)))

            async with trio.open_nursery() as operating:
                for operator in operators:
                    operating.start_soon(operate, operator)
                for _ in range(6):
                    await trio.sleep(rng.expovariate(1.5))
                    victim = cluster.brokers[rng.choice(list(cluster.brokers))]
                    if victim.is_up:
                        await victim.kill()
                        await trio.sleep(rng.uniform(0, 3))
                        await victim.restart(rng.choice(("kill", "power")))
            await trio.sleep(3)
            for producer in producers:
                producer.enough = True
        await trio.sleep(45)  # what is left to do, brokers do by themselves
        cluster.forget()
        for index in range(3):
            await finish(cluster, index)
            of_index = [producer for producer in producers if producer.index == index]
            assert await check(cluster, index, of_index) > 50


async def finish(cluster: LogicalCluster, index: int) -> None:
    """Call off the destinations that a tool made and never used."""
    for name in cluster.brokers:
        left = (await cluster.chain(name, index)).write_only
        if left is not None and left.broker_name == name:
            assert left.delta < 0
            context = cluster.brokers[name].running.context
            assert context.logical.end_offset(TOPIC, left.queue_id) == left.offset_delta
            assert (await cluster.map(name, left.queue_id, -1)).code == 0
