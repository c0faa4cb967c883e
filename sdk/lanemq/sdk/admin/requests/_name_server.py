"""Requests to a name server: topics, routes, clusters, and its key-value table.

Source: RocketMQ 4.9.8, MQClientAPIImpl (the requests), DefaultRequestProcessor of the name
server (the answers).
"""

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    MASTER_ID,
    BrokerDrain,
    ClusterInfo,
    KVTable,
    LostMessages,
    ProxiedQueues,
    ProxyStatus,
    QueueMove,
    RouteData,
    TopicList,
)
from lanemq.wire.headers import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerResponse,
    DeleteKVConfig,
    DeleteTopicFromNamesrv,
    GetKVConfig,
    GetKVConfigResponse,
    GetKVListByNamespace,
    GetRouteInfo,
    GetTopicsByCluster,
    ProxyDrainBroker,
    ProxyLostMessages,
    ProxyMoveQueue,
    ProxyQueues,
    PutKVConfig,
    UnregisterBroker,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerResponse,
)

from ..._errors import BrokerUnreachable, NoRoute, RefusedByBroker, RequestTimedOut
from ..._tasks import read_body
from ._caller import Caller


class NameServerRequests:
    """Requests, one method each. Reads ask the first name server that answers; writes ask all."""

    _caller: Caller

    async def topics(self) -> list[str]:
        """Return the names of all topics that have a route (206)."""
        frame = await self._caller.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return list((await read_body(frame.body, TopicList.decode)).topic_list)

    async def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics with a queue in ``cluster`` (224)."""
        frame = await self._caller.ask_name_server(
            RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByCluster(cluster=cluster)
        )
        return list((await read_body(frame.body, TopicList.decode)).topic_list)

    async def route(self, topic: str) -> RouteData:
        """Return the brokers and queues of ``topic`` (105). Raises ``NoRoute``."""
        try:
            frame = await self._caller.ask_name_server(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=topic)
            )
        except RefusedByBroker as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            servers = ", ".join(self._caller.name_servers)
            raise NoRoute(topic, f"no route at name server {servers}") from None
        return await read_body(frame.body, RouteData.decode)

    async def cluster(self) -> ClusterInfo:
        """Return the clusters and the addresses of their brokers (106)."""
        frame = await self._caller.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        return await read_body(frame.body, ClusterInfo.decode)

    async def proxy_status(self, address: str) -> ProxyStatus:
        """Return what a proxy of lanemq reports at its port for routes (310431)."""
        frame = await self._caller.ask(address, RequestCode.PROXY_STATUS)
        return await read_body(frame.body, ProxyStatus.decode)

    async def move_queue(
        self, address: str, topic: str, index: int, broker: str = "", *, abort: bool = False
    ) -> QueueMove:
        """Have a proxy of lanemq move a queue to a broker, or say how far that is (310432).

        ``index`` is the queue's place in the list that clients see; ``abort`` calls the move off.
        """
        header = ProxyMoveQueue(topic=topic, index=index, broker=broker, abort=abort)
        frame = await self._caller.ask(address, RequestCode.PROXY_MOVE_QUEUE, header)
        return await read_body(frame.body, QueueMove.decode)

    async def proxied_queues(self, address: str, topic: str) -> ProxiedQueues:
        """Return the brokers to which the queues of a topic behind a proxy are written (310433)."""
        frame = await self._caller.ask(address, RequestCode.PROXY_QUEUES, ProxyQueues(topic=topic))
        return await read_body(frame.body, ProxiedQueues.decode)

    async def drain_at_proxy(
        self, address: str, broker: str, *, forget: bool = False
    ) -> BrokerDrain:
        """Have a proxy of lanemq go on with the drain of a broker, or say how far that is (310434).

        It moves no queue (``move_queue``). ``forget`` says that the broker, which was drained and
        is gone, will not come back.
        """
        header = ProxyDrainBroker(broker=broker, forget=forget)
        frame = await self._caller.ask(address, RequestCode.PROXY_DRAIN_BROKER, header)
        return await read_body(frame.body, BrokerDrain.decode)

    async def lost_at_proxy(
        self, address: str, broker: str, *, passes: bool = False
    ) -> LostMessages:
        """Have a proxy of lanemq look for messages before ends of moved queues that a broker has
        lost, or say how far that is (310435).

        ``passes`` lets readers go on behind them.
        """
        header = ProxyLostMessages(broker=broker, passes=passes)
        frame = await self._caller.ask(address, RequestCode.PROXY_LOST_MESSAGES, header)
        return await read_body(frame.body, LostMessages.decode)

    async def delete_route(self, topic: str, *, cluster: str | None = None) -> None:
        """Make every name server forget the route of ``topic`` (216)."""
        header = DeleteTopicFromNamesrv(topic=topic, cluster_name=cluster)
        await self._caller.ask_every_name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def listed_at(self, broker_name: str) -> str | None:
        """Return the address of a name server that lists a broker; None where none does that
        answers."""
        for address in self._caller.name_servers:
            try:
                frame = await self._caller.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            except (BrokerUnreachable, RequestTimedOut):
                continue
            if broker_name in (await read_body(frame.body, ClusterInfo.decode)).broker_addr_table:
                return address
        return None

    async def forget_broker(self, broker_name: str) -> None:
        """Make every name server forget a broker's part of logical queues (104).

        For one that will not come back. Name servers of Apache forget nothing by it.
        """
        header = UnregisterBroker(
            broker_name=broker_name,
            broker_addr="",
            cluster_name="",
            broker_id=MASTER_ID,
            forget_logical_queues=True,
        )
        # One that was started since knows nothing of the broker, and has nothing to forget.
        unknown = ResponseCode.QUERY_NOT_FOUND
        code = RequestCode.UNREGISTER_BROKER
        await self._caller.ask_every_name_server(code, header, may_refuse=unknown)

    async def put_value(self, namespace: str, key: str, value: str) -> None:
        """Store a value at every name server (100)."""
        header = PutKVConfig(namespace=namespace, key=key, value=value)
        await self._caller.ask_every_name_server(RequestCode.PUT_KV_CONFIG, header)

    async def value(self, namespace: str, key: str) -> str | None:
        """Return a stored value, None where there is none (101)."""
        try:
            frame = await self._caller.ask_name_server(
                RequestCode.GET_KV_CONFIG, GetKVConfig(namespace=namespace, key=key)
            )
        except RefusedByBroker as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return None
        return GetKVConfigResponse.from_fields(frame.fields).value

    async def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace (219)."""
        try:
            frame = await self._caller.ask_name_server(
                RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespace(namespace=namespace)
            )
        except RefusedByBroker as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return {}
        return dict((await read_body(frame.body, KVTable.decode)).table)

    async def delete_value(self, namespace: str, key: str) -> None:
        """Remove a value from every name server (102)."""
        header = DeleteKVConfig(namespace=namespace, key=key)
        await self._caller.ask_every_name_server(RequestCode.DELETE_KV_CONFIG, header)

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make the topics of a broker unwritable (205): name server -> number of topics."""
        header = WipeWritePermOfBroker(broker_name=broker_name)
        answers = await self._caller.ask_every_name_server(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, header
        )
        return {
            address: WipeWritePermOfBrokerResponse.from_fields(answer.fields).wipe_topic_count
            for address, answer in answers.items()
        }

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make the topics of a broker writable again (327): name server -> number of topics."""
        header = AddWritePermOfBroker(broker_name=broker_name)
        answers = await self._caller.ask_every_name_server(
            RequestCode.ADD_WRITE_PERM_OF_BROKER, header
        )
        return {
            address: AddWritePermOfBrokerResponse.from_fields(answer.fields).add_topic_count
            for address, answer in answers.items()
        }
