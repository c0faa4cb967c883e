"""JSON texts about logical queues, as lanemq writes them, for 5.0.0-PREVIEW to read."""

import random
from collections.abc import Iterator

from lanemq.wire import fastjson
from lanemq.wire.bodies import (
    BrokerData,
    DataVersion,
    MessageQueue,
    QueueData,
    RegisterBrokerBody,
    RouteData,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUES_MEMBER,
    Chain,
    CreateQueueForLogicalQueue,
    LogicalQueues,
    MigrateLogicalQueue,
    Redirect,
    ReuseLogicalQueue,
    SealLogicalQueue,
    Segment,
    SegmentState,
    UpdateLogicalQueueMapping,
    with_logical_queues,
)

Case = tuple[str, str]
"""A task for the oracle LogicalJson, and the text that it gets."""


def cases(seed: int, count: int) -> Iterator[Case]:
    """Texts of every kind, about ``count`` topics made up from ``seed``."""
    made_up = random.Random(seed)
    for _ in range(count):
        queues = _queues(made_up)
        yield "queues", queues.encode().decode()
        yield "route", route(queues).encode(standard=True).decode()
        yield "unordered", route(queues).encode(standard=True).decode()
        yield "register", _registration(queues.of_broker("broker1")).encode().decode()
        segments = list(queues.segments) or [_segment(made_up, 0)]
        made_up.shuffle(segments)
        yield "sorted", fastjson.dumps(segments).decode()
        first, last = segments[0], segments[-1]
        yield "segment", first.encode().decode()
        yield "sorted", Redirect(first, last).encode().decode()
        yield "migrate", MigrateLogicalQueue(first, last).encode().decode()
        yield "migrate", MigrateLogicalQueue(None, last).encode().decode()
    yield "update", UpdateLogicalQueueMapping("T", 3, -1).encode().decode()
    yield "seal", SealLogicalQueue("T", 0, 2).encode().decode()
    for state in SegmentState:
        yield "reuse", ReuseLogicalQueue("T", 0, 2, state, 5).encode().decode()
        yield "create", CreateQueueForLogicalQueue("T", 2, state).encode().decode()


def route(queues: LogicalQueues) -> RouteData:
    """Return a route as lanemq's name server sends it to a client that asks for logical queues."""
    brokers = sorted({segment.broker_name for segment in queues.segments})
    return RouteData(
        queue_datas=tuple(QueueData(name, 3, 3) for name in brokers),
        broker_datas=tuple(BrokerData("c", name, {0: f"{name}:10911"}) for name in brokers),
        extra={LOGICAL_QUEUES_MEMBER: queues.to_json()},
    )


def _registration(queues: LogicalQueues) -> RegisterBrokerBody:
    return RegisterBrokerBody(
        TopicConfigWrapper(
            {"T": TopicConfig("T", 3, 3)},
            DataVersion(1_700_000_000_000, 7),
            with_logical_queues({}, {"T": queues}),
        )
    )


def _queues(made_up: random.Random) -> LogicalQueues:
    return LogicalQueues(
        Chain(index, (_segment(made_up, index) for _ in range(made_up.randrange(5))))
        for index in range(made_up.randrange(5))
    )


def _segment(made_up: random.Random, index: int) -> Segment:
    choose = made_up.choice
    state = choose(list(SegmentState))
    begin = choose((0, made_up.randrange(1000)))
    sealed = not state.is_writable
    return Segment(
        MessageQueue("T", f"broker{made_up.randrange(4)}", made_up.randrange(1000)),
        index,
        choose((0, 101, made_up.randrange(1 << 50))) if state != "WriteOnly" else choose((-1, 7)),
        state,
        begin,
        begin + made_up.randrange(200) if sealed else -1,
        made_up.randrange(1 << 41) if sealed else -1,
        made_up.randrange(1 << 41) if sealed else -1,
        choose((None, f"10.0.0.{index}:10911")),
    )
