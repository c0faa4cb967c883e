"""Headers of pop consumption (5.x): enough to know such a request, and to pass it on."""

from typing import final

from .._numbers import Int, Long
from ._header import Header


@final
class PopMessage(Header, frozen=True):
    """POP_MESSAGE 200050; times are in milliseconds.

    Source: RocketMQ 5.3.3, PopMessageRequestHeader.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    max_msg_nums: Int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: Int
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


@final
class PopMessageResponse(Header, frozen=True):
    """Source: RocketMQ 5.3.3, PopMessageResponseHeader."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@final
class AckMessage(Header, frozen=True):
    """ACK_MESSAGE 200051. Source: RocketMQ 5.3.3, AckMessageRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long


@final
class ChangeInvisibleTime(Header, frozen=True):
    """CHANGE_MESSAGE_INVISIBLETIME 200053. Source: 5.3.3, ChangeInvisibleTimeRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long
    invisible_time: Long


@final
class ChangeInvisibleTimeResponse(Header, frozen=True):
    """Source: RocketMQ 5.3.3, ChangeInvisibleTimeResponseHeader."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int


@final
class PeekMessage(Header, frozen=True):
    """PEEK_MESSAGE 200052. Source: RocketMQ 5.3.3, PeekMessageRequestHeader."""

    topic: str
    queue_id: Int
    max_msg_nums: Int
    consumer_group: str


@final
class Notification(Header, frozen=True):
    """NOTIFICATION 200054. Source: RocketMQ 5.3.3, NotificationRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    poll_time: Long
    born_time: Long
    order: bool | None = None
    attempt_id: str | None = None


@final
class NotificationResponse(Header, frozen=True):
    """Source: RocketMQ 5.3.3, NotificationResponseHeader."""

    has_msg: bool
    polling_full: bool = False


@final
class PollingInfo(Header, frozen=True):
    """POLLING_INFO 200055. Source: RocketMQ 5.3.3, PollingInfoRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int


@final
class PollingInfoResponse(Header, frozen=True):
    """Source: RocketMQ 5.3.3, PollingInfoResponseHeader."""

    polling_num: Int
