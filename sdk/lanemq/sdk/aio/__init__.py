"""lanemq.sdk for asyncio.

The names are those of lanemq.sdk, and so are options, messages and errors
themselves. Written by sdk/tools/generate_faces.py. See docs/sdk.md.
"""

from lanemq.wire.bodies import MessageModel, MessageQueue
from lanemq.wire.message import StageRecord, Stages

from .._codecs import Codec, DecodeErrors, JsonCodec, MsgpackCodec, TextCodec
from .._errors import (
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
from .._messages import Message, Outcome, ReceivedMessage, Retry, SendResult, SendStatus
from .._options import (
    ClientOptions,
    Compression,
    ConsumeFrom,
    ConsumerOptions,
    LitePullOptions,
    ProducerOptions,
    PushOptions,
)
from .._transactions import TransactionResult, TransactionState
from ..consumer._allocation import (
    Allocate,
    AllocateByConfig,
    AllocateConsistentHash,
    AllocateMachineRoom,
    AllocateMachineRoomNearby,
    allocate_averagely,
    allocate_by_circle,
)
from ..consumer._expressions import Expression, Sql
from ..consumer._queue_changes import QueueChange
from ..consumer.ordered._stage_stores import (
    BrokerStageOffsets,
    LocalStageOffsets,
    MemoryStageOffsets,
)
from ..consumer.pulls._flow import FlowLimits
from ..listeners._listener import ConcurrentListener
from ..listeners._listener_context import ListenerContext, Stage
from ..listeners._ordered_listeners import (
    AbandonMessage,
    KeyOrderedListener,
    LockLoss,
    OrderlyListener,
    StageCounter,
    StagedConcurrentListener,
    StageOffsetStore,
)
from ..net._acl import BrokerCredentials, Credentials
from ..net._discovery import NameServersLike
from ..net._remoting import RemotingOptions
from ..observe._consume_hooks import ConsumeHook, Consumption
from ..observe._send_hooks import SendAttempt, SendHook, SendKind
from ..observe._statistics import ConsumerStatistics, QueueStatistics, TopicStatistics
from ..producer._request_reply import reply_to
from ..producer._selectors import HashSelector, QueueSelector, select_randomly
from ._bridge import Opening
from ._consumers import LitePullConsumer, PushConsumer
from ._open import (
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
    open_transaction_producer,
)
from ._producer import BatchingSender, Producer, StagedSender, TransactionProducer

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
    "Opening",
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
    "open_lite_pull_consumer",
    "open_producer",
    "open_push_consumer",
    "open_transaction_producer",
    "reply_to",
    "select_randomly",
]
