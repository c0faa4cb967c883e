"""A name server and a broker in a thread of their own, for tests.

They speak over loopback ports, so that every client finds them there: each face of the SDK, one
in another process, one in another language. That they have a trio run to themselves keeps them
apart from the test's event loop and from whatever clock that has.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar, Final, TypeVar, final

import trio

from lanemq.proxy.broker import BrokerConfig, ConfigError
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import RunningBroker, open_broker
from lanemq.sdk import ReceivedMessage
from lanemq.storage import Stage
from lanemq.wire import Refused, queue_ids
from lanemq.wire.bodies import MessageQueue, TopicConfig
from lanemq.wire.message import decode_message

from ._memory_files import MemoryFiles

T = TypeVar("T")

HOST: Final = "127.0.0.1"
CALL_S: Final = 60.0
"""Seconds after which a call that should take milliseconds is an error: machines that run tests
are busy."""
AHEAD_MAX_S: Final = 100 * 366 * 86_400
"""Seconds that the clock may be ahead of the real one: a hundred years."""
DEFAULTS: Final[Mapping[str, str]] = {
    "brokerName": "test-broker",
    "defaultTopicQueueNums": "4",
    "logicalListenPort": "-1",
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "deleteCommitLogFilesInterval": "0",
}
"""Settings that differ from Apache's defaults: small files, and no ports for old clients of logical
queues."""
OWN: Final = frozenset({"listenPort", "namesrvAddr", "storePathRootDir"})
"""Settings that the server has to choose itself."""
ON_DISK: Final = ("storeType=defaultRocksDB", "rocksdbCQDoubleWriteEnable")
"""Settings by which queues are kept in RocksDB, which has files of its own."""


class ServerClosed(Exception):  # noqa: N818 - says what happened
    """The server was used outside its block."""


@final
class MovableClock:
    """The time of day of a test's server: the real one, later by the time it was moved."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def now_s(self) -> float:
        """Return seconds since 1970."""
        return self.now_ms() / 1000

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises ``ValueError`` for a time that is negative, since stores do not go back, and for one
        that would have it more than a hundred years ahead.
        """
        if not seconds >= 0:
            raise ValueError(f"seconds is {seconds}: the clock moves forward only")
        most = AHEAD_MAX_S - self._ahead_ms // 1000
        if seconds > most:
            raise ValueError(
                f"seconds is {seconds}: it must be 0 to {most}, for the clock may be a hundred"
                " years ahead"
            )
        self._ahead_ms += round(seconds * 1000)


@final
class TestServer:
    """A server that runs; ``open_test_server`` makes it. Any thread may use it.

    Its methods return within milliseconds, and so may be called on an event loop, too.
    """

    __test__: ClassVar = False  # pytest takes it for a group of tests otherwise

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.name_servers = ""
        """The name server's address, ``host:port``, as clients are configured with it."""
        self.broker_name = ""
        self.broker_address = ""
        """The broker's address, ``host:port``; clients learn it from the name server."""
        self._config = _config(settings)
        self._clock = MovableClock()
        self._broker: RunningBroker | None = None
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="lanemq-test-server", daemon=True)
        self._failure: BaseException | None = None

    # For tests

    @property
    def now_ms(self) -> int:
        """The server's time of day, in milliseconds since 1970."""
        return self._clock.now_ms()

    def advance(self, seconds: float) -> None:
        """Move the server's time of day forward, and return once what became due is done.

        Delayed messages that are due, messages that come again after a failure among them, are
        in their queues, and log files beyond their retention are gone. Time-outs of connections
        and heartbeats are not touched. Raises ``ValueError`` for a time that is negative or no
        number, and for more than a hundred years in all.
        """

        async def move(broker: RunningBroker) -> None:
            self._clock.advance(seconds)  # in the server's thread: several may move it
            await broker.broker.clock_moved()

        self._call(move)

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic, or change how many queues it has. Routes have it at once.

        Topics that nobody created come into being by the first send, as at any broker.
        Raises ``ValueError`` for a name, or a number of queues, that a broker refuses.
        """
        if isinstance(queues, bool) or not isinstance(queues, int):
            raise ValueError(f"queues of a topic are a whole number, not {queues!r}")
        if queues < 1:
            raise ValueError(f"a topic needs a queue to be sent to, not {queues}")
        config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)

        async def create(broker: RunningBroker) -> None:
            context = broker.broker.context
            try:
                context.topics.check_users_own(topic)
                context.topics.check_queues(queues)
            except Refused as refused:
                raise ValueError(refused.remark) from None
            context.topics.put(config)
            await context.announced()

        self._call(create)

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """Return the messages of a topic, in the order in which they were stored.

        Those that are delayed belong to it when they are due.
        """

        async def read(broker: RunningBroker) -> list[ReceivedMessage]:
            await trio.lowlevel.checkpoint()
            store, config = broker.broker.context.store, broker.broker.context.topics.get(topic)
            found: list[ReceivedMessage] = []
            for queue_id in queue_ids(config.write_queue_nums if config is not None else 0):
                queue = MessageQueue(topic, broker.name, queue_id)
                begin, end = store.bounds(topic, queue_id)
                while begin < end and (units := store.units(topic, queue_id, begin, end - begin)):
                    records = ((unit, store.record_at(unit.log_position)) for unit in units)
                    found += [
                        ReceivedMessage(decode_message(record), queue)
                        for unit, record in records
                        if record is not None and unit.has(record)
                    ]
                    begin += len(units)
            return sorted(found, key=lambda message: message.stored.log_position)

        return self._call(read)

    # Its life

    def _start(self) -> None:
        """Start the server; returns once it listens and clients find it. Raises what kept it from
        that."""
        if self._thread.ident is not None:
            raise RuntimeError("a test server starts once: call open_test_server() for another")
        self._thread.start()
        self._started.result()

    def _close(self) -> None:
        """Stop the server, and wait until its thread has ended. Raises an error that occurred in
        it."""
        nursery, token = self._nursery, self._token
        if nursery is not None and token is not None:
            token.run_sync_soon(nursery.cancel_scope.cancel)
        if self._thread.ident is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as raised:
            error = raised
            while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _main(self) -> None:
        near = NameServerConfig(bind_address=HOST, listen_port=0, logical_queue_wait_time=0)
        async with open_nameserver(near) as name_server:
            config = self._config
            config.namesrv_addr, known = name_server.address, name_server.known
            disk = MemoryFiles(self._clock.now_s)
            async with open_broker(
                config,
                files=disk,
                clock_ms=self._clock.now_ms,
                is_alone=lambda: known.names <= {config.broker_name},
            ) as broker:
                self.name_servers = name_server.address
                self.broker_name, self.broker_address = broker.name, str(broker.address)
                async with trio.open_nursery() as nursery:
                    self._broker, self._nursery = broker, nursery
                    self._token = trio.lowlevel.current_trio_token()
                    self._started.set_result(None)
                    try:
                        await trio.sleep_forever()
                    finally:
                        self._broker = self._nursery = None

    def _call(self, call: Callable[[RunningBroker], Awaitable[T]]) -> T:
        """Run ``call`` as a task of the server's, and wait for its outcome."""
        outcome: Future[T] = Future()

        async def run(broker: RunningBroker) -> None:
            try:
                outcome.set_result(await call(broker))
            except Exception as error:
                outcome.set_exception(error)
            except trio.Cancelled:
                outcome.set_exception(ServerClosed("the test server ended meanwhile"))
                raise

        def begin() -> None:
            if self._broker is None or self._nursery is None:
                outcome.set_exception(closed)
            else:
                self._nursery.start_soon(run, self._broker)

        closed = ServerClosed("the test server is closed: use it within its block")
        if self._token is None or self._broker is None:
            raise closed
        try:
            self._token.run_sync_soon(begin)
        except trio.RunFinishedError:
            raise closed from None
        try:
            return outcome.result(CALL_S)
        except TimeoutError:
            if outcome.done():  # the call's own
                raise
            raise TimeoutError(f"the test server did not answer within {CALL_S:g} s") from None


def _config(settings: Mapping[str, str]) -> BrokerConfig:
    """Make the broker's settings. Raises ``ConfigError`` for some that cannot be, or not here."""
    for key, value in settings.items():
        if not isinstance(value, str):
            raise ConfigError(f"settings: {key} must be a text, as in a broker.conf, not {value!r}")
    if taken := sorted(OWN & settings.keys()):
        raise ConfigError(f"settings: {', '.join(taken)}: a test server chooses that itself")
    config = BrokerConfig.from_properties(
        {**DEFAULTS, **settings},
        {"bind_address": HOST, "listen_port": 0, "store_path_root_dir": Path("/lanemq-test")},
        source="settings",
    )
    if config.store_config().stage is not Stage.FILES:
        raise ConfigError(
            f"settings: {' and '.join(ON_DISK)} keep queues on the disk; a test server keeps"
            " everything in memory"
        )
    return config
