"""Headers of messages on their way in: sends, replies, send-backs, transactions."""

from collections.abc import Mapping
from typing import Self, final

from msgspec import field

from .._numbers import Int, Long
from ._header import Header


class SendMessage(Header, frozen=True):
    """SEND_MESSAGE 10, SEND_REPLY_MESSAGE 324; in letters also 310, 320 and 325.

    ``queue_id`` -1 lets the broker choose. ``properties`` is the encoded property text.
    ``batch`` says whether the body is one, whatever the code. Brokers ignore ``bname``.
    Source: RocketMQ 4.9.8, SendMessageRequestHeader.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
    batch: bool = False
    bname: str | None = None

    @classmethod
    def from_letters(cls, fields: Mapping[str, str]) -> "SendMessageV2":
        """Read the one-letter form; raises ``RemoteProtocolError`` naming the letter."""
        return SendMessageV2.from_fields(fields)

    def to_letters(self) -> dict[str, str]:
        """Return the ext fields in the one-letter form."""
        return SendMessageV2.of(self).to_fields()


@final
class SendMessageV2(SendMessage, frozen=True):
    """The same header with one letter for each name.

    SEND_MESSAGE_V2 310, SEND_BATCH_MESSAGE 320, SEND_REPLY_MESSAGE_V2 325.
    Source: RocketMQ 4.9.8, SendMessageRequestHeaderV2.
    """

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int = field(name="d")
    queue_id: Int = field(name="e")
    sys_flag: Int = field(name="f")
    born_timestamp: Long = field(name="g")
    flag: Int = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: Int | None = field(default=None, name="j")
    unit_mode: bool = field(default=False, name="k")
    max_reconsume_times: Int | None = field(default=None, name="l")
    batch: bool = field(default=False, name="m")
    bname: str | None = field(default=None, name="n")

    @classmethod
    def of(cls, header: SendMessage) -> Self:
        return cls(*(getattr(header, name) for name in cls.__struct_fields__))


@final
class SendMessageResponse(Header, frozen=True):
    """``msg_id`` is the offset id; of a batch, all of them, joined by commas.

    Clients up to 4.9 look up ``msg_region`` and ``trace_on`` in the ext fields of a success
    without asking whether it has any. Source: RocketMQ 4.9.8, SendMessageResponseHeader.
    """

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = field(default=None, name="MSG_REGION")
    trace_on: bool | None = field(default=None, name="TRACE_ON")


@final
class ReplyMessage(Header, frozen=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT 326; hosts are ``ip:port``.

    Source: RocketMQ 4.9.8, ReplyMessageRequestHeader.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    born_host: str
    store_host: str
    store_timestamp: Long
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool = False


@final
class ConsumerSendMsgBack(Header, frozen=True):
    """CONSUMER_SEND_MSG_BACK 36; ``offset`` is a log position.

    Source: RocketMQ 4.9.8, ConsumerSendMsgBackRequestHeader.
    """

    offset: Long
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None


@final
class EndTransaction(Header, frozen=True):
    """END_TRANSACTION 37; ``commit_or_rollback`` is 0, 8 or 12, as in a system flag.

    Source: RocketMQ 4.9.8, EndTransactionRequestHeader.
    """

    producer_group: str
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: Int
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None


@final
class CheckTransactionState(Header, frozen=True):
    """CHECK_TRANSACTION_STATE 39, broker to producer.

    Source: RocketMQ 4.9.8, CheckTransactionStateRequestHeader.
    """

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


@final
class ResumeCheckHalfMessage(Header, frozen=True):
    """RESUME_CHECK_HALF_MESSAGE 323. Source: 4.9.8, ResumeCheckHalfMessageRequestHeader."""

    msg_id: str | None = None
    topic: str | None = None


@final
class RecallMessage(Header, frozen=True):
    """RECALL_MESSAGE 370. Source: RocketMQ 5.3.3, RecallMessageRequestHeader."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


@final
class RecallMessageResponse(Header, frozen=True):
    """Source: RocketMQ 5.3.3, RecallMessageResponseHeader."""

    msg_id: str
