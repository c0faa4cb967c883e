"""A name server and brokers that may stop and come back, with a namespace of four partitions."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import trio

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import RunningBroker, open_broker
from lanemq.sdk import RemotingClient, open_remoting_client
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.brokers import SMALL_STORE
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import Header, KvGet, KvStatus, KvWrite
from lanemq.wire.kv import (
    Action,
    Entry,
    NamespaceStatus,
    OpType,
    Step,
    WriteAnswer,
    decode_answer,
    decode_entry,
    encode_key,
    encode_steps,
)
from lanemq.wire.logical import SegmentState

TOPIC = "%KV%jobs"
PARTITIONS = 4
NEVER_MS = 3_600_000


@final
@dataclass
class _Running:
    broker: RunningBroker
    stop: trio.Event
    stopped: trio.Event


async def _run(config: BrokerConfig, task_status: trio.TaskStatus[_Running]) -> None:
    stop, stopped = trio.Event(), trio.Event()
    async with open_broker(config) as broker:
        task_status.started(_Running(broker, stop, stopped))
        await stop.wait()
    stopped.set()


@final
class Cluster:
    """Brokers by name, of which each may stop and come back."""

    def __init__(
        self,
        root: Path,
        name_server: str,
        client: RemotingClient,
        admin: AdminClient,
        nursery: trio.Nursery,
    ) -> None:
        self.root = root
        self._nursery = nursery
        self.name_server = name_server
        self.admin = admin
        self._client = client
        self._running: dict[str, _Running] = {}

    async def start(self, name: str, *, engine: KvEngine = KvEngine.MEMORY, **more: object) -> None:
        """Start a broker, with its store."""
        config = BrokerConfig(
            broker_name=name,
            bind_address="127.0.0.1",
            listen_port=0,
            logical_listen_port=-1,
            namesrv_addr=self.name_server,
            store_path_root_dir=self.root / name,
            kv_engine=engine,
            **{**SMALL_STORE, **more},  # type: ignore[arg-type]
        )
        self._running[name] = await self._nursery.start(_run, config)

    async def stop(self, name: str) -> None:
        """Stop a broker, as an operator does."""
        running = self._running.pop(name)
        running.stop.set()
        await running.stopped.wait()

    async def stop_all(self) -> None:
        """Stop all brokers."""
        for name in list(self._running):
            await self.stop(name)

    def broker(self, name: str) -> RunningBroker:
        """Return a broker that runs."""
        return self._running[name].broker

    async def ask(self, name: str, code: int, header: Header, body: bytes = b"") -> Frame:
        """Ask a broker, whatever it answers."""
        asked = request(code, header.to_fields(), body=body)
        address = str(self.broker(name).address)
        return await self._client.call(address, asked, 30.0, accept=range(1 << 31))

    async def create(self, name: str, partition: int, partitions: int = PARTITIONS) -> Frame:
        """Create a partition at a broker."""
        header = KvWrite(
            op_type=OpType.CREATE,
            namespace="jobs",
            partition=partition,
            partitions=partitions,
            create_at=name,
        )
        return await self.ask(name, RequestCode.KV_WRITE, header)

    async def put(
        self, name: str, partition: int, key: bytes, value: bytes, *, sequence: int = 0
    ) -> WriteAnswer:
        """Put a value at a broker that has the partition."""
        header = KvWrite(
            op_type=OpType.PUT,
            namespace="jobs",
            partition=partition,
            partitions=PARTITIONS,
            client="me" if sequence else None,
            sequence=sequence or None,
            waits=sequence or None,
        )
        body = encode_steps([Step(key, Action.PUT, value)])
        answer = await self.ask(name, RequestCode.KV_WRITE, header, body)
        assert answer.code == 0, answer.remark
        return decode_answer(answer.body, WriteAnswer)

    async def get_frame(
        self, name: str, partition: int, key: bytes, *, partitions: int = PARTITIONS
    ) -> Frame:
        """Return the answer to a read of a key."""
        header = KvGet(
            key=encode_key(key), namespace="jobs", partition=partition, partitions=partitions
        )
        return await self.ask(name, RequestCode.KV_GET, header)

    async def get(self, name: str, partition: int, key: bytes) -> Entry | None:
        """Return the entry of a key."""
        answer = await self.get_frame(name, partition, key)
        assert answer.code == 0, answer.remark
        return decode_entry(answer.body)

    async def statuses(self, name: str) -> dict[int, NamespaceStatus]:
        """Return the partitions at a broker, by their numbers."""
        answer = await self.ask(name, RequestCode.KV_STATUS, KvStatus())
        return {one.partition: one for one in decode_answer(answer.body, list[NamespaceStatus])}

    async def is_open(self, name: str, partition: int) -> bool:
        """Return whether a broker serves a partition."""
        status = (await self.statuses(name)).get(partition)
        return status is not None and status.is_open

    async def prepare(self, partition: int, source: str, destination: str) -> None:
        """Seal a partition's log, and leave it at that."""
        target = await self.admin.create_queue(
            str(self.broker(destination).address), TOPIC, partition, SegmentState.WRITE_ONLY
        )
        address = str(self.broker(source).address)
        chains = await self.admin.logical_queues(address, TOPIC)
        assert chains is not None
        chain = chains.get(partition)
        assert chain is not None
        assert chain.normal is not None
        await self.admin.prepare_migration(address, chain.normal, target)

    async def move(self, partition: int, destination: str) -> None:
        """Move a partition, and wait until it is open there."""
        await self.admin.migrate_logical_queue(TOPIC, partition, destination)
        await until(lambda: self.is_open(destination, partition))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds."""
    with trio.fail_after(60):
        while not await holds():  # noqa: ASYNC110 - it is other processes' doing
            await trio.sleep(0.02)


@asynccontextmanager
async def cluster(
    root: Path, *names: str, engine: KvEngine = KvEngine.MEMORY, **more: object
) -> AsyncIterator[Cluster]:
    """Run brokers, and a namespace of four partitions, dealt out to them in turn."""
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=root / "kv.json"
    )
    async with (
        open_nameserver(config) as name_server,
        open_remoting_client() as client,
        open_admin(name_servers=name_server.address, timeout_s=60) as admin,
        trio.open_nursery() as nursery,
    ):
        made = Cluster(root, name_server.address, client, admin, nursery)
        for name in names:
            await made.start(name, engine=engine, **more)
        for partition in range(PARTITIONS):
            name = names[partition % len(names)]
            assert (await made.create(name, partition)).code == 0
        yield made
        await made.stop_all()


async def lacks(there: Cluster, name: str, partition: int) -> bool:
    """Return whether a broker has no state of a partition."""
    return partition not in await there.statuses(name)


async def says(there: Cluster, name: str, partition: int, text: str) -> bool:
    """Return whether a broker refuses a read of a partition with ``text``."""
    return text in ((await there.get_frame(name, partition, b"k")).remark or "")
