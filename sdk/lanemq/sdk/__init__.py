"""lanemq.sdk: a RocketMQ client on trio.

Everything public is here; ``open_producer``, ``open_push_consumer`` and
``open_lite_pull_consumer`` are where to begin. See docs/sdk.md.
"""

from lanemq.wire.bodies import MessageModel, MessageQueue
from lanemq.wire.message import StageRecord, Stages

from ._batching_sender import BatchingSender
from ._codecs import Codec, DecodeErrors, JsonCodec, MsgpackCodec, TextCodec
from ._errors import (
    BadAnswer,
    BatchingFailed,
    BodyNotRestored,
    BrokerUnreachable,
    ClientClosed,
    DecodingFailed,
    InvalidName,
    LanemqError,
    MessageRejected,
    NoReply,
    NoRoute,
    NotOpened,
    RefusedByBroker,
    RequestTimedOut,
    StagedSendFailed,
    StoreFailed,
    WrongUse,
    WrongValue,
)
from ._lite_pull import LitePullConsumer, open_lite_pull_consumer
from ._messages import Message, Outcome, ReceivedMessage, Retry, SendResult, SendStatus
from ._options import (
    ClientOptions,
    Compression,
    ConsumeFrom,
    ConsumerOptions,
    LitePullOptions,
    ProducerOptions,
    PushOptions,
)
from ._producer import Producer, open_producer
from ._push_consumer import PushConsumer, open_push_consumer
from ._staged_producer import StagedSender
from ._transactions import (
    TransactionProducer,
    TransactionResult,
    TransactionState,
    open_transaction_producer,
)
from .consumer._allocation import (
    Allocate,
    AllocateByConfig,
    AllocateConsistentHash,
    AllocateMachineRoom,
    AllocateMachineRoomNearby,
    allocate_averagely,
    allocate_by_circle,
)
from .consumer._expressions import Expression, Sql
from .consumer._queue_changes import QueueChange
from .consumer.ordered._stage_stores import (
    BrokerStageOffsets,
    LocalStageOffsets,
    MemoryStageOffsets,
)
from .consumer.pulls._flow import FlowLimits
from .listeners._listener import ConcurrentListener
from .listeners._listener_context import ListenerContext, Stage
from .listeners._ordered_listeners import (
    AbandonMessage,
    KeyOrderedListener,
    LockLoss,
    OrderlyListener,
    StageCounter,
    StagedConcurrentListener,
    StageOffsetStore,
)
from .net._acl import BrokerCredentials, Credentials
from .net._discovery import NameServersLike
from .net._link import Dial
from .net._remoting import RemotingClient, RemotingOptions, dial_tcp, open_remoting_client
from .net._tls import over_tls
from .observe._consume_hooks import ConsumeHook, Consumption
from .observe._send_hooks import SendAttempt, SendHook, SendKind
from .observe._statistics import ConsumerStatistics, QueueStatistics, TopicStatistics
from .producer._request_reply import reply_to
from .producer._selectors import HashSelector, QueueSelector, select_randomly

__all__ = [
    "AbandonMessage",
    "Allocate",
    "AllocateByConfig",
    "AllocateConsistentHash",
    "AllocateMachineRoom",
    "AllocateMachineRoomNearby",
    "BadAnswer",
    "BatchingFailed",
    "BatchingSender",
    "BodyNotRestored",
    "BrokerCredentials",
    "BrokerStageOffsets",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientOptions",
    "Codec",
    "Compression",
    "ConcurrentListener",
    "ConsumeFrom",
    "ConsumeHook",
    "ConsumerOptions",
    "ConsumerStatistics",
    "Consumption",
    "Credentials",
    "DecodeErrors",
    "DecodingFailed",
    "Dial",
    "Expression",
    "FlowLimits",
    "HashSelector",
    "InvalidName",
    "JsonCodec",
    "KeyOrderedListener",
    "LanemqError",
    "ListenerContext",
    "LitePullConsumer",
    "LitePullOptions",
    "LocalStageOffsets",
    "LockLoss",
    "MemoryStageOffsets",
    "Message",
    "MessageModel",
    "MessageQueue",
    "MessageRejected",
    "MsgpackCodec",
    "NameServersLike",
    "NoReply",
    "NoRoute",
    "NotOpened",
    "OrderlyListener",
    "Outcome",
    "Producer",
    "ProducerOptions",
    "PushConsumer",
    "PushOptions",
    "QueueChange",
    "QueueSelector",
    "QueueStatistics",
    "ReceivedMessage",
    "RefusedByBroker",
    "RemotingClient",
    "RemotingOptions",
    "RequestTimedOut",
    "Retry",
    "SendAttempt",
    "SendHook",
    "SendKind",
    "SendResult",
    "SendStatus",
    "Sql",
    "Stage",
    "StageCounter",
    "StageOffsetStore",
    "StageRecord",
    "StagedConcurrentListener",
    "StagedSendFailed",
    "StagedSender",
    "Stages",
    "StoreFailed",
    "TextCodec",
    "TopicStatistics",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WrongUse",
    "WrongValue",
    "allocate_averagely",
    "allocate_by_circle",
    "dial_tcp",
    "open_lite_pull_consumer",
    "open_producer",
    "open_push_consumer",
    "open_remoting_client",
    "open_transaction_producer",
    "over_tls",
    "reply_to",
    "select_randomly",
]
