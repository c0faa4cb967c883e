"""Headers about the clients of a broker: registration, membership, requests to them."""

from typing import final

from msgspec import field

from .._numbers import Int, Long
from ._header import Header


@final
class UnregisterClient(Header, frozen=True):
    """UNREGISTER_CLIENT 35; one group or both.

    Source: RocketMQ 4.9.8, UnregisterClientRequestHeader.
    """

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@final
class HeartbeatResponse(Header, frozen=True):
    """The answer to HEART_BEAT (34) of 5.x brokers; 4.x adds nothing to it.

    Source: RocketMQ 5.3.3, ClientManageProcessor.heartBeat.
    """

    is_support_heart_beat_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool | None = field(default=None, name="IS_SUB_CHANGE")


@final
class GetConsumerListByGroup(Header, frozen=True):
    """GET_CONSUMER_LIST_BY_GROUP 38. Source: GetConsumerListByGroupRequestHeader."""

    consumer_group: str


@final
class NotifyConsumerIdsChanged(Header, frozen=True):
    """NOTIFY_CONSUMER_IDS_CHANGED 40, broker to consumer.

    Source: RocketMQ 4.9.8, NotifyConsumerIdsChangedRequestHeader.
    """

    consumer_group: str


@final
class GetConsumerConnectionList(Header, frozen=True):
    """GET_CONSUMER_CONNECTION_LIST 203. Source: GetConsumerConnectionListRequestHeader."""

    consumer_group: str


@final
class GetProducerConnectionList(Header, frozen=True):
    """GET_PRODUCER_CONNECTION_LIST 204. Source: GetProducerConnectionListRequestHeader."""

    producer_group: str


@final
class GetConsumerRunningInfo(Header, frozen=True):
    """GET_CONSUMER_RUNNING_INFO 307, on both legs.

    Source: RocketMQ 4.9.8, GetConsumerRunningInfoRequestHeader.
    """

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@final
class ConsumeMessageDirectly(Header, frozen=True):
    """CONSUME_MESSAGE_DIRECTLY 309, on both legs; ``msg_id`` is an offset id.

    Source: RocketMQ 4.9.8, ConsumeMessageDirectlyResultRequestHeader.
    """

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


@final
class ResetOffset(Header, frozen=True):
    """INVOKE_BROKER_TO_RESET_OFFSET 222 and RESET_CONSUMER_CLIENT_OFFSET 220.

    ``timestamp`` is in milliseconds, -1 for the newest. ``queue_id`` and ``offset`` are of 5.x.
    Source: RocketMQ 4.9.8 and 5.3.3, ResetOffsetRequestHeader.
    """

    topic: str
    group: str
    timestamp: Long
    is_force: bool
    queue_id: Int | None = None
    offset: Long | None = None


@final
class GetConsumerStatus(Header, frozen=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223 and GET_CONSUMER_STATUS_FROM_CLIENT 221.

    Source: RocketMQ 4.9.8, GetConsumerStatusRequestHeader.
    """

    topic: str
    group: str
    client_addr: str | None = None
