"""Headers of requests to a name server."""

from typing import final

from .._numbers import Int, Long
from ._header import Header


@final
class PutKVConfig(Header, frozen=True):
    """PUT_KV_CONFIG 100. Source: RocketMQ 4.9.8, PutKVConfigRequestHeader."""

    namespace: str
    key: str
    value: str


@final
class GetKVConfig(Header, frozen=True):
    """GET_KV_CONFIG 101. Source: RocketMQ 4.9.8, GetKVConfigRequestHeader."""

    namespace: str
    key: str


@final
class GetKVConfigResponse(Header, frozen=True):
    """Source: RocketMQ 4.9.8, GetKVConfigResponseHeader."""

    value: str | None = None


@final
class DeleteKVConfig(Header, frozen=True):
    """DELETE_KV_CONFIG 102. Source: RocketMQ 4.9.8, DeleteKVConfigRequestHeader."""

    namespace: str
    key: str


@final
class GetKVListByNamespace(Header, frozen=True):
    """GET_KVLIST_BY_NAMESPACE 219. Source: RocketMQ 4.9.8, GetKVListByNamespaceRequestHeader."""

    namespace: str


@final
class RegisterBroker(Header, frozen=True):
    """REGISTER_BROKER 103; ``body_crc32`` is that of the raw body, 0 for "do not check".

    Source: RocketMQ 4.9.8 and 5.3.3, RegisterBrokerRequestHeader.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    compressed: bool = False
    body_crc32: Int = 0
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None


@final
class RegisterBrokerResponse(Header, frozen=True):
    """The master's addresses for a slave. Source: RocketMQ 4.9.8, RegisterBrokerResponseHeader.

    ``serve_logical_queue_to_java`` is lanemq's own, for its brokers: the name server's setting.
    """

    ha_server_addr: str | None = None
    master_addr: str | None = None
    serve_logical_queue_to_java: str | None = None


@final
class UnregisterBroker(Header, frozen=True):
    """UNREGISTER_BROKER 104. Source: RocketMQ 4.9.8, UnRegisterBrokerRequestHeader.

    ``forget_logical_queues`` is lanemq's own: the broker will not come back, so its segments
    of logical queues are to be forgotten too.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long
    forget_logical_queues: bool | None = None


@final
class QueryDataVersion(Header, frozen=True):
    """QUERY_DATA_VERSION 322. Source: RocketMQ 4.9.8, QueryDataVersionRequestHeader."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@final
class QueryDataVersionResponse(Header, frozen=True):
    """Source: RocketMQ 4.9.8, QueryDataVersionResponseHeader."""

    changed: bool


@final
class BrokerHeartbeat(Header, frozen=True):
    """BROKER_HEARTBEAT 904 (5.x). Source: RocketMQ 5.3.3, BrokerHeartbeatRequestHeader."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Long | None = None
    epoch: Int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_mills: Long | None = None
    election_priority: Int | None = None


@final
class GetBrokerMemberGroup(Header, frozen=True):
    """GET_BROKER_MEMBER_GROUP 901 (5.x). Source: 5.3.3, GetBrokerMemberGroupRequestHeader."""

    cluster_name: str
    broker_name: str


@final
class GetRouteInfo(Header, frozen=True):
    """GET_ROUTEINFO_BY_TOPIC 105; ``sys_flag`` and ``logical_queue_ids_filter`` are of PREVIEW.

    The filter reads ``[3]`` or ``[1, 2]``; PREVIEW's clients depend on its being ignored.
    ``apply_logical_queue_ids_filter`` is lanemq's own: this client means it.
    Source: RocketMQ 4.9.8 and 5.0.0-PREVIEW, GetRouteInfoRequestHeader.
    """

    topic: str
    accept_standard_json_only: bool | None = None
    sys_flag: Int | None = None
    logical_queue_ids_filter: str | None = None
    apply_logical_queue_ids_filter: bool | None = None


@final
class WipeWritePermOfBroker(Header, frozen=True):
    """WIPE_WRITE_PERM_OF_BROKER 205. Source: 4.9.8, WipeWritePermOfBrokerRequestHeader."""

    broker_name: str


@final
class WipeWritePermOfBrokerResponse(Header, frozen=True):
    """Source: RocketMQ 4.9.8, WipeWritePermOfBrokerResponseHeader."""

    wipe_topic_count: Int


@final
class AddWritePermOfBroker(Header, frozen=True):
    """ADD_WRITE_PERM_OF_BROKER 327. Source: 4.9.8, AddWritePermOfBrokerRequestHeader."""

    broker_name: str


@final
class AddWritePermOfBrokerResponse(Header, frozen=True):
    """Source: RocketMQ 4.9.8, AddWritePermOfBrokerResponseHeader."""

    add_topic_count: Int


@final
class DeleteTopicFromNamesrv(Header, frozen=True):
    """DELETE_TOPIC_IN_NAMESRV 216. Source: 4.9.8, DeleteTopicFromNamesrvRequestHeader."""

    topic: str
    cluster_name: str | None = None


@final
class RegisterTopic(Header, frozen=True):
    """REGISTER_TOPIC_IN_NAMESRV 217 (5.x). Source: 5.3.3, RegisterTopicRequestHeader."""

    topic: str


@final
class GetTopicsByCluster(Header, frozen=True):
    """GET_TOPICS_BY_CLUSTER 224. Source: RocketMQ 4.9.8, GetTopicsByClusterRequestHeader."""

    cluster: str
