"""lanemq.sdk: a RocketMQ client on trio.

Everything public is here; ``open_producer``, ``open_push_consumer`` and
``open_lite_pull_consumer`` are where to begin. See docs/sdk.md.
"""

from lanemq.wire import MessageQueue, StageRecord, Stages

from ._acl import Credentials
from ._allocation import (
    Allocate,
    AllocateByConfig,
    AllocateConsistentHash,
    AllocateMachineRoom,
    AllocateMachineRoomNearby,
    allocate_averagely,
    allocate_by_circle,
)
from ._consume_hooks import ConsumeHook, Consumption
from ._discovery import NameServersLike
from ._errors import (
    BadAnswer,
    BrokerUnreachable,
    ClientClosed,
    InvalidName,
    LanemqError,
    MessageRejected,
    NoReply,
    NoRoute,
    RefusedByBroker,
    RequestTimedOut,
    StagedSendFailed,
    WrongUse,
)
from ._expressions import Expression, Sql
from ._flow import FlowLimits
from ._link import Dial
from ._listener import ConcurrentListener
from ._lite_pull import LitePullConsumer, open_lite_pull_consumer
from ._messages import Message, Outcome, ReceivedMessage, SendResult, SendStatus
from ._options import (
    ClientOptions,
    ConsumeFrom,
    ConsumerOptions,
    LitePullOptions,
    MessageModel,
    ProducerOptions,
    PushOptions,
)
from ._ordered_listeners import (
    AbandonMessage,
    LockLoss,
    OrderlyListener,
    StagedConcurrentListener,
)
from ._producer import Producer, open_producer
from ._push_consumer import PushConsumer, open_push_consumer
from ._remoting import RemotingClient, RemotingOptions, dial_tcp, open_remoting_client
from ._request_reply import reply_to
from ._selectors import HashSelector, QueueSelector, select_randomly
from ._send_hooks import SendAttempt, SendHook, SendKind
from ._stage_counter import StageCounter
from ._stage_offsets import (
    BrokerStageOffsets,
    LocalStageOffsets,
    MemoryStageOffsets,
    StageOffsetStore,
)
from ._staged_producer import StagedSender
from ._transactions import (
    TransactionProducer,
    TransactionResult,
    TransactionState,
    open_transaction_producer,
)

__all__ = [
    "AbandonMessage",
    "Allocate",
    "AllocateByConfig",
    "AllocateConsistentHash",
    "AllocateMachineRoom",
    "AllocateMachineRoomNearby",
    "BadAnswer",
    "BrokerStageOffsets",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientOptions",
    "ConcurrentListener",
    "ConsumeFrom",
    "ConsumeHook",
    "ConsumerOptions",
    "Consumption",
    "Credentials",
    "Dial",
    "Expression",
    "FlowLimits",
    "HashSelector",
    "InvalidName",
    "LanemqError",
    "LitePullConsumer",
    "LitePullOptions",
    "LocalStageOffsets",
    "LockLoss",
    "MemoryStageOffsets",
    "Message",
    "MessageModel",
    "MessageQueue",
    "MessageRejected",
    "NameServersLike",
    "NoReply",
    "NoRoute",
    "OrderlyListener",
    "Outcome",
    "Producer",
    "ProducerOptions",
    "PushConsumer",
    "PushOptions",
    "QueueSelector",
    "ReceivedMessage",
    "RefusedByBroker",
    "RemotingClient",
    "RemotingOptions",
    "RequestTimedOut",
    "SendAttempt",
    "SendHook",
    "SendKind",
    "SendResult",
    "SendStatus",
    "Sql",
    "StageCounter",
    "StageOffsetStore",
    "StageRecord",
    "StagedConcurrentListener",
    "StagedSendFailed",
    "StagedSender",
    "Stages",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WrongUse",
    "allocate_averagely",
    "allocate_by_circle",
    "dial_tcp",
    "open_lite_pull_consumer",
    "open_producer",
    "open_push_consumer",
    "open_remoting_client",
    "open_transaction_producer",
    "reply_to",
    "select_randomly",
]
