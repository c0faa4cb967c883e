"""A store directory on which one broker after another runs, each asked directly.

No name server is needed, so an Apache broker is there after three seconds and not after ten.

    stand = StoreStand(folder)
    async with stand.run("apache-5.3.3", Stage.BOTH):
        await stand.send("topic", 0, [b"one", b"two"])
    async with stand.run("lanemq", Stage.ROCKSDB):
        view = await stand.view()
"""

import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from lanemq.sdk.admin import open_admin
from lanemq.storage import Stage
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import CheckStatus, MessageQueue, SubscriptionGroupConfig, TopicConfig
from lanemq.wire.frame import Frame
from lanemq.wire.headers import SendMessage, SendMessageResponse
from lanemq.wire.message import encode_properties

from .._errors import ServerFailed
from ..servers._apache import TEST_STORE, apache_broker
from ..servers._clusters import DEFAULT_LOGS, LANEMQ, lanemq_broker
from ..servers._control import Control
from ..servers._daemon import Daemon
from ..servers._ports import free_port
from ..servers._waiting import PATIENT_S
from ._stages import recorded_store, stage_settings
from ._view import Committed, StoreView, committed_offsets, view_store

BROKER_NAME = "broker-a"
AGREE_S = 60.0


@dataclass(slots=True)
class StoreStand:
    """A folder with a store, a port, and the settings that all brokers on it share."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=lambda: dict(TEST_STORE))
    name_server: str | None = None
    """The name server with which the brokers register, if any."""
    port: int = field(default_factory=lambda: free_port(1, -2))

    @property
    def store(self) -> Path:
        """The store directory."""
        return self.folder / "store"

    @property
    def address(self) -> str:
        """The address of the broker, ``host:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def control(self) -> Control:
        """Questions to the broker."""
        return Control(self.address)

    @classmethod
    def recorded(cls, name: str, folder: Path) -> "StoreStand":
        """Make a stand on a copy of a recorded store."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, recorded_store(name, folder / "store"))

    def copy(self, folder: Path) -> "StoreStand":
        """Make a stand on a copy of this store, as it is on disk now, with a port of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.store, folder / "store")
        return StoreStand(folder, self.settings, self.name_server)

    def broker(
        self,
        maker: str,
        stage: Stage,
        *,
        settings: Mapping[str, str] | None = None,
        talkative: Sequence[str] = (),
    ) -> Daemon:
        """Describe a broker of "lanemq" or "apache-VERSION" on this store; not started yet."""
        chosen = {**self.settings, **stage_settings(stage), **(settings or {})}
        if maker == "lanemq":
            return lanemq_broker(
                self.folder,
                port=self.port,
                name_server=self.name_server,
                name=BROKER_NAME,
                store=self.store,
                settings=chosen,
            )
        return apache_broker(
            maker.removeprefix("apache-"),
            self.folder,
            port=self.port,
            name_server=self.name_server,
            name=BROKER_NAME,
            store=self.store,
            settings=chosen,
            talkative=talkative,
        )

    @asynccontextmanager
    async def run(
        self,
        maker: str,
        stage: Stage,
        *,
        killed: bool = False,
        settings: Mapping[str, str] | None = None,
        talkative: Sequence[str] = (),
    ) -> AsyncIterator[Daemon]:
        """Run a broker; end it with SIGTERM, or with SIGKILL if ``killed`` or on an error.

        Raises ``ServerFailed`` where it does not start, or ends with an error.
        """
        make = partial(self.broker, maker, stage, settings=settings, talkative=talkative)
        daemon = await trio.to_thread.run_sync(make)
        try:
            await daemon.start()
            yield daemon
            if not killed:
                status = await daemon.stop()
                if maker == "lanemq" and status:
                    raise ServerFailed(f"{daemon.title} ended with status {status}", daemon.log)
        except BaseException:
            daemon.keep_log(DEFAULT_LOGS / self.folder.name)
            raise
        finally:
            with trio.CancelScope(shield=True):
                await daemon.kill()

    async def tool(self, command: str, *arguments: str) -> str:
        """Run ``lanemq store COMMAND`` on the directory, which no broker has open.

        Returns what it prints. Raises ``ServerFailed`` where it exits with an error.
        """
        line = [*LANEMQ, "store", command, str(self.store), *arguments]
        done = await trio.run_process(line, capture_stdout=True, capture_stderr=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise ServerFailed(f"lanemq store {command}: exit status {done.returncode}\n{said}")
        return done.stdout.decode()

    async def view(self) -> StoreView:
        """Read everything the running broker has."""
        return await view_store(self.address)

    async def committed(self) -> Committed:
        """Ask how far all groups of the running broker are."""
        return await committed_offsets(self.address)

    async def indexes_agree(self) -> None:
        """Wait until lanemq says that RocksDB alone would do: every queue is there as in files.

        Raises ``ServerFailed`` with what it says after ``AGREE_S``.
        """
        result = None
        async with open_admin(name_servers=self.address, timeout_s=PATIENT_S) as admin:
            with trio.move_on_after(AGREE_S):
                while True:
                    result = await admin.check_rocksdb(self.address, check_from_ms=0)
                    if result.check_status == CheckStatus.OK and result.safe_to_switch:
                        return
                    await trio.sleep(0.1)
        raise ServerFailed(f"files and RocksDB do not agree: {result}")

    async def ask(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> Frame:
        """Send one request to the running broker and return the answer, of any code."""
        return await self.control.ask(self.address, code, fields, body)

    async def make_topic(self, topic: str, queues: int) -> None:
        """Create a topic."""
        async with open_admin(name_servers=self.address, timeout_s=PATIENT_S) as admin:
            await admin.put_topic(self.address, TopicConfig(topic, queues, queues))

    async def make_group(self, group: str) -> None:
        """Create a consumer group."""
        async with open_admin(name_servers=self.address, timeout_s=PATIENT_S) as admin:
            await admin.put_group(self.address, SubscriptionGroupConfig(group_name=group))

    async def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let a group have consumed a queue up to ``offset``."""
        async with open_admin(name_servers=self.address, timeout_s=PATIENT_S) as admin:
            queue = MessageQueue(topic, BROKER_NAME, queue_id)
            await admin.put_offset(self.address, group, queue, offset)

    async def send(
        self, topic: str, queue_id: int, bodies: Sequence[bytes], *, tags: str = ""
    ) -> list[int]:
        """Send messages one after the other and return their queue offsets; all can be pulled then.

        An Apache broker answers a send before its consume queue has the message. Raises
        ``ServerFailed`` where one is refused, or is not to be pulled after ``AGREE_S``.
        """
        offsets = [await self._send(topic, queue_id, body, tags) for body in bodies]
        with trio.move_on_after(AGREE_S):
            while True:
                if await self._end(topic, queue_id) > max(offsets, default=-1):
                    return offsets
                await trio.sleep(0.01)
        raise ServerFailed(f"message {offsets[-1]} of queue {queue_id} of {topic} is in no queue")

    async def _end(self, topic: str, queue_id: int) -> int:
        fields = {"topic": topic, "queueId": str(queue_id)}
        reply = await self.ask(RequestCode.GET_MAX_OFFSET, fields)
        if reply.code != ResponseCode.SUCCESS:
            raise ServerFailed(f"no end of queue {queue_id} of {topic}: {reply.remark}")
        return int(reply.fields["offset"])

    async def _send(self, topic: str, queue_id: int, body: bytes, tags: str) -> int:
        header = SendMessage(
            producer_group="compat-stand",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=0,
            properties=encode_properties({"TAGS": tags} if tags else {}).decode(),
        )
        reply = await self.ask(RequestCode.SEND_MESSAGE, header.to_fields(), body)
        if reply.code != ResponseCode.SUCCESS:
            raise ServerFailed(f"send refused with code {reply.code}: {reply.remark}")
        return SendMessageResponse.from_fields(reply.fields).queue_offset
