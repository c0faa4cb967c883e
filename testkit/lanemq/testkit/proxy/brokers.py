"""A broker without sockets, and clients that speak to it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import final

import trio
from msgspec.structs import replace
from trio.testing import memory_stream_pair

from lanemq.proxy.broker._broker import Broker
from lanemq.proxy.broker.context._context import BrokerContext
from lanemq.proxy.broker.settings._config import BrokerConfig
from lanemq.proxy.net._session import Session
from lanemq.proxy.process._run import accounts_of, users_of
from lanemq.storage import open_store, system_clock_ms
from lanemq.wire import (
    ACCESS_KEY_FIELD,
    SEAL_FIELD,
    SEALED_AT_FIELD,
    SEALED_FOR_FIELD,
    SIGNATURE_FIELD,
    HostAddress,
    RequestCode,
    seal,
    sealed_content,
    signature,
    signed_content,
)
from lanemq.wire.bodies import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    TopicConfig,
)
from lanemq.wire.frame import Frame, SerializeType, request
from lanemq.wire.headers import PullMessage, SendMessage
from lanemq.wire.message import StoredMessage, decode_messages, encode_properties

from .peers import Peer

ADDRESS = HostAddress("127.0.0.1", 10911)

# Small files: a test's store is made and thrown away in milliseconds.
SMALL_STORE: Mapping[str, object] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
    "mapped_file_size_timer_log": 1 << 16,
}


@final
class TestBroker:
    """A running broker; ``connect`` opens a connection to it."""

    __test__ = False

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.context = broker.context
        self.announced: list[TopicConfig] = []
        self.expected_failures: dict[str, int] = {}
        """Failures of its tasks, by their names, when it ends."""
        self._nursery = nursery
        self._connected = 0

    def connect(
        self,
        host: str = "127.0.0.1",
        *,
        account: tuple[str, str] | None = None,
        version: int = 407,
        language: str = "JAVA",
    ) -> "Client":
        """Return a new connection from ``host``, whose requests ``account`` signs."""
        self._connected += 1
        ours, theirs = memory_stream_pair()
        peer = HostAddress(host, 40_000 + self._connected)

        async def serve() -> None:
            await self.broker.server.serve_stream(theirs, peer=peer, local_port=ADDRESS.port)

        self._nursery.start_soon(serve)
        client = Client(Peer(ours), version=version, language=language)
        client.account = account
        return client


@asynccontextmanager
async def open_test_broker(
    root: Path, *, now_ms: Callable[[], int] = system_clock_ms, **settings: object
) -> AsyncIterator[TestBroker]:
    """Run a broker with the settings, over a store in ``root``, without sockets."""
    config = BrokerConfig(
        broker_name="broker-a",
        store_path_root_dir=root,
        **{**SMALL_STORE, **settings},  # type: ignore[arg-type]
    )
    announced: list[TopicConfig] = []
    async with (
        open_store(config.store_config(), clock_ms=now_ms) as store,
        trio.open_nursery() as nursery,
    ):
        addresses = {str(ADDRESS)}
        access_control = accounts_of(config, addresses) or users_of(config, addresses)
        context = BrokerContext(
            config,
            store,
            address=ADDRESS,
            announce=announced.append,
            now_ms=now_ms,
            access_control=access_control,
        )
        broker = Broker(context, is_alone=lambda: True)
        test_broker = TestBroker(broker, nursery)
        test_broker.announced = announced
        nursery.start_soon(broker.run)
        yield test_broker
        nursery.cancel_scope.cancel()
        assert broker.context.supervisor.failures == test_broker.expected_failures


@final
class Client:
    """Requests as a Java client makes them; every method returns the answer as it is."""

    def __init__(self, peer: Peer, *, version: int = 407, language: str = "JAVA") -> None:
        self.peer = peer
        self.account: tuple[str, str] | None = None
        """Access key and secret key; with them it signs its requests."""
        self._version = version
        self._language = language
        self._opaque = 0
        self.pushed: list[Frame] = []
        """Requests of the broker that came before an answer."""

    def frame(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        oneway: bool = False,
        serialize: SerializeType = SerializeType.JSON,
    ) -> Frame:
        """Return a request with this client's version, language and next number."""
        self._opaque += 1
        if self.account is not None:
            fields = signed(fields or {}, body, *self.account)
        made = request(code, fields, body, opaque=self._opaque, oneway=oneway)
        return Frame(
            code=made.code,
            opaque=made.opaque,
            flag=made.flag,
            fields=made.fields,
            body=body,
            language=self._language,
            version=self._version,
            serialize=serialize,
        )

    async def call(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        serialize: SerializeType = SerializeType.JSON,
    ) -> Frame:
        """Send one request and return its answer; what the broker asks meanwhile is kept."""
        frame = self.frame(code, fields, body, serialize=serialize)
        await self.peer.send(frame)
        while not (answer := await self.peer.receive()).is_response:
            self.pushed.append(answer)
        assert answer.opaque == frame.opaque
        return answer

    async def send(
        self,
        topic: str = "T",
        body: bytes = b"body",
        properties: Mapping[str, str] | str | None = None,
        **changes: object,
    ) -> Frame:
        """Send one message with SEND_MESSAGE_V2; ``changes`` are header fields."""
        return await self.call(
            RequestCode.SEND_MESSAGE_V2,
            send_header(topic, properties, **changes).to_letters(),
            body,
        )

    async def pull(
        self, topic: str = "T", queue_id: int = 0, offset: int = 0, **changes: object
    ) -> Frame:
        """Pull without waiting, with the subscription ``*`` in the request."""
        return await self.call(
            RequestCode.PULL_MESSAGE, pull_header(topic, queue_id, offset, **changes).to_fields()
        )

    async def messages(
        self, topic: str = "T", queue_id: int = 0, offset: int = 0, **changes: object
    ) -> list[StoredMessage]:
        """Return the messages that one such pull finds; an empty list where there are none."""
        answer = await self.pull(topic, queue_id, offset, **changes)
        return decode_messages(answer.body) if answer.code == 0 else []

    async def all_messages(self, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
        """Return all messages of a queue, with their checksums checked."""
        found: list[StoredMessage] = []
        while True:
            offset = found[-1].queue_offset + 1 if found else 0
            header = pull_header(topic, queue_id, offset)
            answer = await self.call(RequestCode.PULL_MESSAGE, header.to_fields())
            if answer.code != 0:
                return found
            found += decode_messages(answer.body, check_crc=True)

    async def heartbeat(
        self,
        client_id: str = "id",
        *,
        consumers: Mapping[str, Mapping[str, str]] | None = None,
        producers: tuple[str, ...] = (),
        **changes: object,
    ) -> Frame:
        """Register; ``consumers`` is group -> topic -> tag expression."""
        data = HeartbeatData(
            client_id=client_id,
            producer_data_set=tuple(ProducerData(group) for group in producers),
            consumer_data_set=tuple(
                ConsumerData(
                    group_name=group,
                    subscription_data_set=tuple(
                        SubscriptionData.of_tags(topic, text, sub_version=1)
                        for topic, text in subscriptions.items()
                    ),
                    **changes,  # type: ignore[arg-type]
                )
                for group, subscriptions in (consumers or {}).items()
            ),
        )
        return await self.call(RequestCode.HEART_BEAT, body=data.encode())


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    """Connect to the server that listens at ``port`` of this machine, of either maker."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield Client(Peer(stream))


def signed(
    fields: Mapping[str, str], body: bytes, access_key: str, secret_key: str
) -> dict[str, str]:
    """Return the fields of a request with those that show who sends it."""
    named = {**fields, ACCESS_KEY_FIELD: access_key}
    return {**named, SIGNATURE_FIELD: signature(signed_content(named, body), secret_key)}


def sealed(frame: Frame, access_key: str, secret_key: str, receiver: str) -> Frame:
    """Return a request as a broker sends it to the one at ``receiver`` now."""
    fields = {
        **frame.fields,
        ACCESS_KEY_FIELD: access_key,
        SEALED_FOR_FIELD: receiver,
        SEALED_AT_FIELD: str(system_clock_ms()),
    }
    fields[SEAL_FIELD] = seal(sealed_content(frame.code, fields, frame.body), secret_key)
    return replace(frame, fields=fields)


def send_header(
    topic: str, properties: Mapping[str, str] | str | None = None, **changes: object
) -> SendMessage:
    """Return the header of an ordinary send; ``changes`` are fields of ``SendMessage``."""
    values: dict[str, object] = {
        "producer_group": "pg",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": (
            properties
            if isinstance(properties, str)
            else encode_properties(properties or {}).decode()
        ),
        "reconsume_times": 0,
    }
    return SendMessage(**(values | changes))  # type: ignore[arg-type]


def pull_header(topic: str, queue_id: int, offset: int, **changes: object) -> PullMessage:
    """Return the header of a pull that brings its subscription and does not wait."""
    values: dict[str, object] = {
        "consumer_group": "g",
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 0,
        "subscription": "*",
        "expression_type": "TAG",
    }
    return PullMessage(**(values | changes))  # type: ignore[arg-type]


async def session_of(broker: TestBroker) -> Session:
    """Return the session of a connection that has sent one message."""
    await broker.connect().send("T", b"first")
    (connection,) = broker.broker.server.connections
    return connection.session
