"""lanemq.sdk without an event loop: threads, ``with``, ``for``.

The names are those of lanemq.sdk, and so are options, messages and errors
themselves. Clients may be used from any number of threads. Written by
sdk/tools/generate_faces.py. See docs/sdk.md.
"""

from lanemq.wire import MessageQueue, StageRecord, Stages

from .._acl import Credentials
from .._allocation import (
    Allocate,
    AllocateByConfig,
    AllocateConsistentHash,
    AllocateMachineRoom,
    AllocateMachineRoomNearby,
    allocate_averagely,
    allocate_by_circle,
)
from .._consume_hooks import ConsumeHook, Consumption
from .._discovery import NameServersLike
from .._errors import (
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
from .._expressions import Expression, Sql
from .._flow import FlowLimits
from .._messages import Message, Outcome, ReceivedMessage, SendResult, SendStatus
from .._options import (
    ClientOptions,
    ConsumeFrom,
    ConsumerOptions,
    LitePullOptions,
    MessageModel,
    ProducerOptions,
    PushOptions,
)
from .._ordered_listeners import AbandonMessage, LockLoss
from .._remoting import RemotingOptions
from .._request_reply import reply_to
from .._selectors import HashSelector, QueueSelector, select_randomly
from .._send_hooks import SendAttempt, SendHook, SendKind
from .._stage_counter import StageCounter
from .._stage_offsets import BrokerStageOffsets, LocalStageOffsets, MemoryStageOffsets
from .._transactions import TransactionResult, TransactionState
from ._callables import StageOffsetStore
from ._listeners import ConcurrentListener, OrderlyListener, StagedConcurrentListener
from ._lite_pull import LitePullConsumer
from ._open import (
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
    open_transaction_producer,
)
from ._producer import Producer
from ._push_consumer import PushConsumer
from ._staged_producer import StagedSender
from ._transactions import TransactionProducer

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
    "open_lite_pull_consumer",
    "open_producer",
    "open_push_consumer",
    "open_transaction_producer",
    "reply_to",
    "select_randomly",
]
