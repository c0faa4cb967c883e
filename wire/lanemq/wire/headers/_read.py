"""Headers of messages on their way out: pulls, queries, offsets."""

from typing import final

from msgspec import field

from .._numbers import Int, Long
from .._signature import UNIQUE_KEY_FIELD
from ._header import Header


@final
class PullMessage(Header, frozen=True):
    """PULL_MESSAGE 11, LITE_PULL_MESSAGE 361.

    ``queue_offset`` and ``commit_offset`` count messages. Clients before 4.1 leave out
    ``expression_type``; it is TAG then. Source: RocketMQ 4.9.8, PullMessageRequestHeader.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long
    suspend_timeout_millis: Long
    sub_version: Long
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int | None = None
    request_source: Int | None = None
    proxy_froward_client_id: str | None = None  # spelled so on the wire


@final
class PullMessageResponse(Header, frozen=True):
    """Response of codes 0, 19, 20 and 21; clients fail without any of the first four fields.

    Source: RocketMQ 4.9.8 and 5.3.3, PullMessageResponseHeader.
    """

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


@final
class QueryMessage(Header, frozen=True):
    """QUERY_MESSAGE 12; times are in milliseconds.

    ``unique_key_query`` asks for a unique key; ``max_num`` is the server's own choice then.
    Source: RocketMQ 4.9.8, QueryMessageRequestHeader, MixAll.UNIQUE_MSG_QUERY_FLAG.
    """

    topic: str
    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    unique_key_query: bool | None = field(default=None, name=UNIQUE_KEY_FIELD)


@final
class QueryMessageResponse(Header, frozen=True):
    """Source: RocketMQ 4.9.8, QueryMessageResponseHeader."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


@final
class ViewMessage(Header, frozen=True):
    """VIEW_MESSAGE_BY_ID 33; ``offset`` is a log position. Source: ViewMessageRequestHeader."""

    offset: Long
    topic: str | None = None


@final
class QueryConsumerOffset(Header, frozen=True):
    """QUERY_CONSUMER_OFFSET 14. Source: RocketMQ 4.9.8, QueryConsumerOffsetRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None


@final
class OffsetResponse(Header, frozen=True):
    """The answer to questions for an offset: 14, 29, 30 and 31.

    Source: RocketMQ 4.9.8, QueryConsumerOffsetResponseHeader, SearchOffsetResponseHeader,
    GetMaxOffsetResponseHeader, GetMinOffsetResponseHeader, which are the same.
    """

    offset: Long


@final
class UpdateConsumerOffset(Header, frozen=True):
    """UPDATE_CONSUMER_OFFSET 15. Source: RocketMQ 4.9.8, UpdateConsumerOffsetRequestHeader."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long


@final
class SearchOffset(Header, frozen=True):
    """SEARCH_OFFSET_BY_TIMESTAMP 29; ``boundary_type`` (5.x) is LOWER or UPPER.

    Source: RocketMQ 4.9.8 and 5.3.3, SearchOffsetRequestHeader.
    """

    topic: str
    queue_id: Int
    timestamp: Long
    boundary_type: str | None = None


@final
class GetMaxOffset(Header, frozen=True):
    """GET_MAX_OFFSET 30; ``logical_queue`` is of 5.0.0-PREVIEW only.

    Source: RocketMQ 4.9.8 and 5.3.3, GetMaxOffsetRequestHeader.
    """

    topic: str
    queue_id: Int
    committed: bool | None = None
    logical_queue: bool | None = None


@final
class GetMinOffset(Header, frozen=True):
    """GET_MIN_OFFSET 31. Source: RocketMQ 4.9.8, GetMinOffsetRequestHeader."""

    topic: str
    queue_id: Int


@final
class GetEarliestMsgStoretime(Header, frozen=True):
    """GET_EARLIEST_MSG_STORETIME 32. Source: GetEarliestMsgStoretimeRequestHeader."""

    topic: str
    queue_id: Int


@final
class GetEarliestMsgStoretimeResponse(Header, frozen=True):
    """Milliseconds, or -1. Source: RocketMQ 4.9.8, GetEarliestMsgStoretimeResponseHeader."""

    timestamp: Long
