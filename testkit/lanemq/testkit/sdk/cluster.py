"""A cluster in memory, for tests: name servers and brokers behind memory streams.

Small on purpose: what a client can tell apart, and nothing else. Faults are injected, not random:
an address can be unreachable, its connections cut, a request code refused or never answered.
Time is trio's; under ``MockClock`` a quarter of an hour of retries takes no time.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import trio
from trio.testing import memory_stream_pair

from lanemq.wire import (
    BOUND_LOCK_FIELD,
    VERSION,
    HostAddress,
    PullSysFlag,
    Refused,
    RequestCode,
    ResponseCode,
    dlq_topic,
    group_of_retry_topic,
    retry_topic,
    tags_code,
)
from lanemq.wire.bodies import (
    BrokerData,
    CheckClientRequestBody,
    ClusterInfo,
    ConsumerData,
    ConsumerIdList,
    HeartbeatData,
    LockBatch,
    LockBatchResult,
    MessageQueue,
    QueueData,
    RouteData,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from lanemq.wire.frame import NEED_DATA, Connection, Frame, PeerClosed, request
from lanemq.wire.headers import (
    ConsumerSendMsgBack,
    GetMaxOffset,
    GetRouteInfo,
    PullMessage,
    PullMessageResponse,
    QueryConsumerOffset,
    SearchOffset,
    SendMessage,
    SendMessageResponse,
    UnregisterClient,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import (
    KEPT_FIELD,
    LOGICAL_QUEUE_FLAG,
    LOGICAL_QUEUES_MEMBER,
    PROGRESS_PREFIX,
    LogicalQueues,
)
from lanemq.wire.message import (
    Property,
    StoredMessage,
    decode_batch,
    decode_message,
    decode_properties,
    encode_offset_id,
    encode_properties,
    encode_record,
    record_properties,
)
from lanemq.wire.sql92 import compile_sql

DELAYS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600)
LOCK_LIFE_S: Final = 60
START_MS: Final = 1_700_000_000_000


def clock_ms() -> int:
    """Return a time of day that goes with trio's clock."""
    return START_MS + int(trio.current_time() * 1000)


class Node:
    """Something at an address that answers requests."""

    def __init__(self, nursery: trio.Nursery, address: str) -> None:
        self.nursery = nursery
        self.address = address
        self.reachable = True
        self.version = VERSION
        self.heartbeat_fields: dict[str, str] = {}
        """Fields of its answers to heartbeats."""
        self.requests: list[Frame] = []
        self.peers: list[Peer] = []
        self._refusals: dict[int, list[int]] = {}
        self._mute: Counter[int] = Counter()
        self.takes_bytes = trio.Event()
        self.takes_bytes.set()
        self.handlers: dict[int, Callable[[Frame, Peer], Frame | None]] = {}
        self.waiters: dict[int, Callable[[Frame, Peer], Awaitable[Frame | None]]] = {}

    def refuse(self, code: int, *answers: int) -> None:
        """Answer the next requests of ``code`` with these response codes, one each."""
        self._refusals.setdefault(code, []).extend(answers)

    def mute(self, code: int, times: int = 1) -> None:
        """Act on the next ``times`` requests of ``code``, and never answer them."""
        self._mute[code] += times

    def stall(self) -> None:
        """Take no more bytes of anybody, on any connection, until `go_on`."""
        self.takes_bytes = trio.Event()

    def go_on(self) -> None:
        """Take bytes again."""
        self.takes_bytes.set()

    def count(self, code: int) -> int:
        """Return the number of requests of ``code`` so far."""
        return sum(frame.code == code for frame in self.requests)

    def cut(self) -> None:
        """Break every connection; new ones can be made."""
        for peer in tuple(self.peers):
            peer.scope.cancel()

    async def serve(self, stream: trio.abc.Stream) -> None:
        peer = Peer(stream)
        self.peers.append(peer)
        try:
            with peer.scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(peer.write_loop)
                    await self._read(peer, nursery)
                    nursery.cancel_scope.cancel()
        finally:
            self.peers.remove(peer)
            await trio.aclose_forcefully(stream)
            self.disconnected(peer)

    async def _read(self, peer: "Peer", nursery: trio.Nursery) -> None:
        while True:
            peer.connection.receive_data(await peer.stream.receive_some(65536))
            while (event := peer.connection.next_event()) is not NEED_DATA:
                if isinstance(event, PeerClosed):
                    return
                assert isinstance(event, Frame)
                if event.is_response:
                    peer.answered(event)
                else:
                    self._take(event, peer, nursery)

    def _take(self, frame: Frame, peer: "Peer", nursery: trio.Nursery) -> None:
        self.requests.append(frame)
        if refusals := self._refusals.get(frame.code):
            self._answer(frame, frame.reply(refusals.pop(0), remark="injected"), peer)
        elif frame.code in self.waiters:
            nursery.start_soon(self._wait, frame, peer)
        else:
            handler = self.handlers.get(frame.code)
            try:
                reply = frame.reply(3) if handler is None else handler(frame, peer)
            except Refused as error:
                reply = frame.reply(error.code, remark=error.remark)
            self._answer(frame, reply, peer)

    async def _wait(self, frame: Frame, peer: "Peer") -> None:
        try:
            reply = await self.waiters[frame.code](frame, peer)
        except Refused as error:
            reply = frame.reply(error.code, remark=error.remark)
        self._answer(frame, reply, peer)

    def _answer(self, frame: Frame, reply: Frame | None, peer: "Peer") -> None:
        if self._mute[frame.code] > 0:
            self._mute[frame.code] -= 1
        elif reply is not None and not frame.is_oneway:
            peer.post(msgspec.structs.replace(reply, version=self.version))

    def disconnected(self, peer: "Peer") -> None:
        """Note that a connection ended."""


class Peer:
    """The server's end of one connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.connection = Connection()
        self.scope = trio.CancelScope()
        self._waiting: dict[int, tuple[trio.Event, list[Frame]]] = {}
        self._outgoing = bytearray()
        self._more = trio.Event()

    def post(self, frame: Frame) -> None:
        self._outgoing += self.connection.send(frame)
        self._more.set()

    async def write_loop(self) -> None:
        while True:
            await self._more.wait()
            self._more = trio.Event()
            data, self._outgoing = self._outgoing, bytearray()
            with suppress(trio.BrokenResourceError):  # the reader learns of it
                await self.stream.send_all(data)

    async def call(self, frame: Frame) -> Frame:
        """Send a request to the client and wait for its answer."""
        numbered = Frame(
            frame.code, self.connection.next_opaque(), frame.flag, frame.fields, frame.body
        )
        done, answers = trio.Event(), list[Frame]()
        self._waiting[numbered.opaque] = done, answers
        self.post(numbered)
        await done.wait()
        return answers[0]

    def answered(self, frame: Frame) -> None:
        done, answers = self._waiting.pop(frame.opaque)
        answers.append(frame)
        done.set()


@dataclass
class FakeQueue:
    """Records of one queue; the first ``trimmed`` are gone."""

    records: list[bytes] = field(default_factory=list)
    trimmed: int = 0
    arrived: trio.Event = field(default_factory=trio.Event)

    @property
    def max_offset(self) -> int:
        return len(self.records)


class FakeBroker(Node):
    """One broker: topics, groups, offsets, holds, send-back with delays."""

    def __init__(self, nursery: trio.Nursery, address: str, name: str) -> None:
        super().__init__(nursery, address)
        self.name = name
        self.perms: dict[str, int] = {"TBW102": 7}
        self.queues: dict[tuple[str, int], FakeQueue] = {}
        self.topics: dict[str, int] = {"TBW102": 8}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, dict[Peer, tuple[str, ConsumerData]]] = {}
        self.producers: dict[str, set[str]] = {}
        self.auto_create = True
        self.property_filter = True
        self.own_properties: dict[str, str] = {}  # given to all that is sent
        self.locks: dict[tuple[str, MessageQueue], tuple[str, float]] = {}  # client id, since
        self.binds_locks = False  # as Apache; lanemq ends locks with their connection
        self._bound: dict[tuple[str, MessageQueue], Peer] = {}
        self.knows_all_groups = True  # as 4.9; 5.x takes offsets of groups it knows only
        self.groups: set[str] = set()
        self.chains: dict[str, LogicalQueues] = {}
        self._log: dict[int, bytes] = {}
        host, port = address.split(":")
        self._host = HostAddress(host, int(port))
        code = RequestCode
        self.handlers = {
            code.SEND_MESSAGE_V2: self._send,
            code.SEND_BATCH_MESSAGE: self._send,
            code.HEART_BEAT: self._heartbeat,
            code.UNREGISTER_CLIENT: self._unregister,
            code.GET_CONSUMER_LIST_BY_GROUP: self._consumers,
            code.QUERY_CONSUMER_OFFSET: self._query_offset,
            code.UPDATE_CONSUMER_OFFSET: self._update_offset,
            code.GET_MAX_OFFSET: self._max_offset,
            code.GET_MIN_OFFSET: self._min_offset,
            code.SEARCH_OFFSET_BY_TIMESTAMP: self._search_offset,
            code.CONSUMER_SEND_MSG_BACK: self._send_back,
            code.CHECK_CLIENT_CONFIG: self._check_client,
            code.LOCK_BATCH_MQ: self._lock,
            code.UNLOCK_BATCH_MQ: self._unlock,
            code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._create_group,
        }
        self.waiters = {code.PULL_MESSAGE: self._pull}

    # What tests look at and do

    def create_topic(self, topic: str, queues: int = 4, perm: int = 6) -> None:
        self.topics[topic] = queues
        self.perms[topic] = perm

    def queue(self, topic: str, queue_id: int) -> FakeQueue:
        return self.queues.setdefault((topic, queue_id), FakeQueue())

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return everything stored in ``topic``, queue by queue."""
        return [
            decode_message(record)
            for (name, _), queue in sorted(self.queues.items())
            if name == topic
            for record in queue.records
        ]

    def put(self, topic: str, queue_id: int, body: bytes, **properties: str) -> int:
        """Store a message as if a producer had sent it; returns its offset."""
        if topic not in self.topics:
            self.create_topic(topic, queue_id + 1)
        return self.append(topic, queue_id, body, encode_properties(properties))

    def forget_clients(self) -> None:
        """Forget registrations but keep topics and offsets, as a restart does."""
        self.members.clear()

    async def ask(self, client_id: str, frame: Frame) -> Frame:
        """Send a request to the client ``client_id`` and wait for its answer."""
        return await self._peer(client_id).call(frame)

    def tell(self, client_id: str, frame: Frame) -> None:
        """Send a one-way request to the client ``client_id``."""
        self._peer(client_id).post(frame)

    def _peer(self, client_id: str) -> Peer:
        for members in self.members.values():
            for peer, (member_id, _) in members.items():
                if member_id == client_id:
                    return peer
        raise AssertionError(f"{client_id} is not registered")

    # Storing

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        *,
        sys_flag: int = 0,
        flag: int = 0,
        reconsume_times: int = 0,
    ) -> int:
        queue = self.queue(topic, queue_id)
        offset, position = queue.max_offset, len(self._log) * 1000
        record = encode_record(
            topic=topic.encode(),
            body=body,
            properties=properties,
            queue_id=queue_id,
            flag=flag,
            queue_offset=offset,
            log_position=position,
            sys_flag=sys_flag,
            born_timestamp_ms=clock_ms(),
            born_host=HostAddress("10.9.8.7", 4711).packed,
            store_timestamp_ms=clock_ms(),
            store_host=self._host.packed,
            reconsume_times=reconsume_times,
        )
        self._log[position] = record
        queue.records.append(record)
        queue.arrived.set()
        queue.arrived = trio.Event()
        return offset

    async def _append_later(
        self, delay_s: float, topic: str, message: StoredMessage, properties: bytes
    ) -> None:
        await trio.sleep(delay_s)
        self.append(
            topic,
            0,
            message.body,
            properties,
            sys_flag=message.sys_flag,
            flag=message.flag,
            reconsume_times=message.reconsume_times + 1,
        )

    # Requests of producers

    def _send(self, frame: Frame, peer: Peer) -> Frame:
        header = SendMessage.from_letters(frame.fields)
        if header.topic not in self.topics:
            if not self.auto_create:
                raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
            self.create_topic(header.topic, header.default_topic_queue_nums)
        topic, group = header.topic, group_of_retry_topic(header.topic)
        times, limit = header.reconsume_times or 0, header.max_reconsume_times
        if group is not None and times > (16 if limit is None else limit):
            topic = dlq_topic(group)
            self.create_topic(topic, 1)
        bodies = [(header.flag, frame.body, (header.properties or "").encode())]
        if header.batch:
            bodies = [(e.flag, e.body, e.properties) for e in decode_batch(frame.body)]
        offsets = [
            self.append(
                topic,
                header.queue_id if topic == header.topic else 0,
                body,
                properties + encode_properties(self.own_properties),
                sys_flag=header.sys_flag,
                flag=flag,
                reconsume_times=header.reconsume_times or 0,
            )
            for flag, body, properties in bodies
        ]
        position = (len(self._log) - len(offsets)) * 1000
        answer = SendMessageResponse(
            ",".join(
                encode_offset_id(self._host, position + n * 1000) for n in range(len(offsets))
            ),
            header.queue_id,
            offsets[0],
            msg_region="DefaultRegion",
            trace_on=True,
        )
        return frame.reply(fields=answer.to_fields())

    # Requests of consumers

    def _heartbeat(self, frame: Frame, peer: Peer) -> Frame:
        body = HeartbeatData.decode(frame.body)
        for producer in body.producer_data_set:
            self.producers.setdefault(producer.group_name, set()).add(body.client_id)
        for consumer in body.consumer_data_set:
            group = consumer.group_name
            self.create_topic(retry_topic(group), 1)
            members = self.members.setdefault(group, {})
            is_new = peer not in members
            members[peer] = body.client_id, consumer
            if is_new:
                self._notify(group)
        return frame.reply(0, dict(self.heartbeat_fields))

    def _notify(self, group: str) -> None:
        for peer in self.members.get(group, {}):
            peer.post(
                request(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, oneway=True
                )
            )

    def disconnected(self, peer: Peer) -> None:
        if self.binds_locks:
            for key in [key for key, holder in self._bound.items() if holder is peer]:
                self.locks.pop(key, None)
                del self._bound[key]
        for group, members in self.members.items():
            if members.pop(peer, None) is not None:
                self._notify(group)

    def _unregister(self, frame: Frame, peer: Peer) -> Frame:
        header = UnregisterClient.from_fields(frame.fields)
        if header.consumer_group is not None:
            self.members.get(header.consumer_group, {}).pop(peer, None)
            self._notify(header.consumer_group)
        return frame.reply()

    def _consumers(self, frame: Frame, peer: Peer) -> Frame:
        members = self.members.get(frame.fields["consumerGroup"])
        if not members:
            raise Refused(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        ids = tuple(client_id for client_id, _ in members.values())
        return frame.reply(body=ConsumerIdList(ids).encode())

    def _query_offset(self, frame: Frame, peer: Peer) -> Frame:
        header = QueryConsumerOffset.from_fields(frame.fields)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, "Not found")
        fields = {"offset": str(offset)}
        if header.topic.startswith(PROGRESS_PREFIX):
            fields[KEPT_FIELD] = "true"
        return frame.reply(fields=fields)

    def _update_offset(self, frame: Frame, peer: Peer) -> Frame:
        header = UpdateConsumerOffset.from_fields(frame.fields)
        group = header.consumer_group
        if not (self.knows_all_groups or group in self.groups or group in self.members):
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        self.offsets[group, header.topic, header.queue_id] = header.commit_offset
        return frame.reply()

    def _create_group(self, frame: Frame, peer: Peer) -> Frame:
        self.groups.add(SubscriptionGroupConfig.decode(frame.body).group_name)
        return frame.reply()

    def _lock(self, frame: Frame, peer: Peer) -> Frame:
        body, now_s = LockBatch.decode(frame.body), trio.current_time()
        granted = []
        for queue in body.mq_set:
            key = body.consumer_group, queue
            holder, since_s = self.locks.get(key, (body.client_id, now_s))
            if holder == body.client_id or now_s - since_s > LOCK_LIFE_S:
                self.locks[key] = body.client_id, now_s
                self._bound[key] = peer
                granted.append(queue)
        bound = self.binds_locks and BOUND_LOCK_FIELD in frame.fields
        fields = {BOUND_LOCK_FIELD: "true"} if bound else None
        return frame.reply(fields=fields, body=LockBatchResult(tuple(granted)).encode())

    def _unlock(self, frame: Frame, peer: Peer) -> Frame:
        body = LockBatch.decode(frame.body)
        for queue in body.mq_set:
            if self.locks.get((body.consumer_group, queue), ("", 0))[0] == body.client_id:
                del self.locks[body.consumer_group, queue]
                self._bound.pop((body.consumer_group, queue), None)
        return frame.reply()

    def _max_offset(self, frame: Frame, peer: Peer) -> Frame:
        header = GetMaxOffset.from_fields(frame.fields)
        return frame.reply(
            fields={"offset": str(self.queue(header.topic, header.queue_id).max_offset)}
        )

    def _min_offset(self, frame: Frame, peer: Peer) -> Frame:
        header = GetMaxOffset.from_fields(frame.fields)
        return frame.reply(
            fields={"offset": str(self.queue(header.topic, header.queue_id).trimmed)}
        )

    def _search_offset(self, frame: Frame, peer: Peer) -> Frame:
        header = SearchOffset.from_fields(frame.fields)
        records = self.queue(header.topic, header.queue_id).records
        times = [decode_message(record).store_timestamp_ms for record in records]
        offset = sum(time_ms < header.timestamp for time_ms in times)
        return frame.reply(fields={"offset": str(offset)})

    def _send_back(self, frame: Frame, peer: Peer) -> Frame:
        header = ConsumerSendMsgBack.from_fields(frame.fields)
        record = self._log.get(header.offset)
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "no message at that offset")
        message = decode_message(record)
        properties = message.properties
        properties.setdefault(Property.RETRY_TOPIC, message.topic)
        properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.offset_id)
        times_max = 16 if header.max_reconsume_times is None else header.max_reconsume_times
        if message.reconsume_times >= times_max or header.delay_level < 0:
            topic, delay_s = dlq_topic(header.group), 0
        else:
            level = header.delay_level or 3 + message.reconsume_times
            topic, delay_s = retry_topic(header.group), DELAYS_S[level - 1]
            properties[Property.DELAY] = str(level)
        self.topics.setdefault(topic, 1)
        self.perms.setdefault(topic, 6)
        data = encode_properties(properties)
        self.nursery.start_soon(self._append_later, delay_s, topic, message, data)
        return frame.reply()

    async def _pull(self, frame: Frame, peer: Peer) -> Frame:
        header = PullMessage.from_fields(frame.fields)
        if header.topic not in self.topics:
            return frame.reply(ResponseCode.TOPIC_NOT_EXIST, remark="topic not exist")
        if header.sys_flag & PullSysFlag.COMMIT_OFFSET:
            key = header.consumer_group, header.topic, header.queue_id
            self.offsets[key] = header.commit_offset
        wants = self._wants(header, peer)
        if wants is None:
            return frame.reply(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark="subscription not exist")
        queue = self.queue(header.topic, header.queue_id)
        if header.sys_flag & PullSysFlag.SUSPEND and header.queue_offset == queue.max_offset:
            with trio.move_on_after(header.suspend_timeout_millis / 1000):
                await queue.arrived.wait()
        return self._read_queue(frame, header, queue, wants)

    def _check_client(self, frame: Frame, peer: Peer) -> Frame:
        wanted = CheckClientRequestBody.decode(frame.body).subscription_data
        if not self.property_filter and wanted is not None and wanted.expression_type != "TAG":
            raise Refused(ResponseCode.SYSTEM_ERROR, "no filter by properties")
        return frame.reply()

    def _wants(self, header: PullMessage, peer: Peer) -> Callable[[bytes], bool] | None:
        """Judges the property string of a message; None if nothing is subscribed."""
        wanted = self._subscription(header, peer)
        if wanted is None:
            return None
        if wanted.expression_type == "SQL92":
            return compile_sql(wanted.sub_string).matches_data
        codes = wanted.code_set
        return lambda data: not codes or tags_code(decode_properties(data).get("TAGS")) in codes

    def _subscription(self, header: PullMessage, peer: Peer) -> SubscriptionData | None:
        if header.sys_flag & PullSysFlag.SUBSCRIPTION:
            if header.expression_type == "SQL92":
                return SubscriptionData(
                    header.topic, header.subscription or "", expression_type="SQL92"
                )
            return SubscriptionData.of_tags(header.topic, header.subscription)
        member = self.members.get(header.consumer_group, {}).get(peer)
        if member is not None:
            for subscription in member[1].subscription_data_set:
                if subscription.topic == header.topic:
                    return subscription
        return None

    @staticmethod
    def _read_queue(
        frame: Frame, header: PullMessage, queue: FakeQueue, wants: Callable[[bytes], bool]
    ) -> Frame:
        offset = next_offset = header.queue_offset
        low, high = queue.trimmed, queue.max_offset
        found: list[bytes] = []
        if offset < low or offset > high:
            code, next_offset = 21, low if offset < low else high
        elif offset == high:
            code = 19
        else:
            for record in queue.records[offset:]:
                next_offset += 1
                if wants(record_properties(record)):
                    found.append(record)
                    if len(found) == header.max_msg_nums:
                        break
            code = 0 if found else 20
        answer = PullMessageResponse(0, next_offset, low, high)
        return frame.reply(code, answer.to_fields(), b"".join(found))


class FakeNameServer(Node):
    """Knows the brokers it is given."""

    def __init__(self, nursery: trio.Nursery, address: str, brokers: list[FakeBroker]) -> None:
        super().__init__(nursery, address)
        self._brokers = brokers
        self.handlers = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
        }

    def _cluster_info(self, frame: Frame, peer: Peer) -> Frame:
        running = [broker for broker in self._brokers if broker.reachable]
        info = ClusterInfo(
            {b.name: BrokerData("c", b.name, {0: b.address}) for b in running},
            {"c": tuple(b.name for b in running)},
        )
        return frame.reply(body=info.encode())

    def _route(self, frame: Frame, peer: Peer) -> Frame:
        header = GetRouteInfo.from_fields(frame.fields)
        topic = header.topic
        holders = [b for b in self._brokers if topic in b.topics and b.reachable]
        if not holders:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info for {topic}")
        route = RouteData(
            queue_datas=tuple(
                QueueData(b.name, b.topics[topic], b.topics[topic], b.perms[topic]) for b in holders
            ),
            broker_datas=tuple(BrokerData("c", b.name, {0: b.address}) for b in holders),
            extra=self._logical(topic) if (header.sys_flag or 0) & LOGICAL_QUEUE_FLAG else {},
        )
        return frame.reply(body=route.encode())

    def _logical(self, topic: str) -> dict[str, object]:
        """Return the logical queues of a topic: of every broker its own segments, ever seen or not.

        A segment without a place in its queue is not shown while another takes the messages.
        """
        told = [b for b in self._brokers if topic in b.chains]
        if not told:
            return {}
        queues = LogicalQueues.of(
            s for b in told for s in b.chains[topic].segments if s.broker_name == b.name
        )
        running = {b.name for b in self._brokers if b.reachable}
        shown = [
            segment
            for chain in queues.values()
            for segment in chain
            if segment.delta >= 0 or chain.normal is None or chain.normal.broker_name not in running
        ]
        return {LOGICAL_QUEUES_MEMBER: LogicalQueues.of(shown).to_json()}


class FakeCluster:
    """Name servers and brokers, and the network to them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.nodes: dict[str, Node] = {}
        self.brokers: list[FakeBroker] = []
        self.name_server_nodes: list[FakeNameServer] = []
        self.dials: list[str] = []
        self.connect_delay_s = 0.0

    @property
    def name_servers(self) -> str:
        return ";".join(node.address for node in self.name_server_nodes)

    @property
    def broker(self) -> FakeBroker:
        """The first broker."""
        return self.brokers[0]

    def add_name_server(self) -> FakeNameServer:
        address = f"10.0.0.{1 + len(self.name_server_nodes)}:9876"
        node = FakeNameServer(self.nursery, address, self.brokers)
        self.nodes[address] = node
        self.name_server_nodes.append(node)
        return node

    def add_broker(self, kind: "type[FakeBroker] | None" = None) -> FakeBroker:
        number = len(self.brokers)
        address = f"10.0.1.{1 + number}:10911"
        broker = (kind or FakeBroker)(self.nursery, address, f"broker-{'abcdef'[number]}")
        self.nodes[address] = broker
        self.brokers.append(broker)
        return broker

    def create_topic(self, topic: str, queues: int = 4) -> None:
        for broker in self.brokers:
            broker.create_topic(topic, queues)

    def bodies(self, topic: str) -> list[bytes]:
        """Bodies stored in ``topic`` at all brokers, sorted."""
        stored: Iterable[StoredMessage] = (m for b in self.brokers for m in b.messages(topic))
        return sorted(message.decompressed_body() for message in stored)

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """Return the function that clients are given for ``dial``."""
        address = f"{host}:{port}"
        self.dials.append(address)
        await trio.sleep(self.connect_delay_s)
        node = self.nodes.get(address)
        if node is None or not node.reachable:
            raise ConnectionRefusedError(f"nobody listens at {address}")
        ours, theirs = memory_stream_pair()
        carry = ours.send_stream.send_all_hook
        assert carry is not None

        async def carry_in_time() -> None:
            await node.takes_bytes.wait()
            await carry()

        ours.send_stream.send_all_hook = carry_in_time
        self.nursery.start_soon(node.serve, theirs)
        return ours


def small_cluster(nursery: trio.Nursery) -> FakeCluster:
    """Return one name server, one broker, and a network that can be broken."""
    cluster = FakeCluster(nursery)
    cluster.add_name_server()
    cluster.add_broker()
    return cluster


class Process:
    """A client's side of the network, up to the moment its process is killed."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._streams: list[trio.abc.Stream] = []
        self.killed = False

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        if self.killed:
            raise ConnectionRefusedError("this process is no more")
        stream = await self._cluster.dial(host, port)
        self._streams.append(stream)
        return stream

    async def kill(self) -> None:
        """Cut the client off: nothing that it says from now on reaches anyone."""
        self.killed = True
        for stream in self._streams:
            await trio.aclose_forcefully(stream)
