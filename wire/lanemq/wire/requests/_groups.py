"""Requests about consumer groups and their clients: membership, offsets, locks, progress."""

from typing import Final

from .. import headers as h
from .._codes import RequestCode as Code
from ._bodies import GROUP_CONFIG, GROUP_CONFIGS, HEARTBEAT, LOCKS
from ._rights import Action, Kind, Right
from ._spec import (
    BOTH,
    BROKER,
    WHOLE,
    Absent,
    AnswerSize,
    BodyKind,
    Field,
    Found,
    RequestSpec,
    Touch,
    free,
)

_JSON: Final = BodyKind.JSON
_WIDE, _ALL = AnswerSize.WIDE, AnswerSize.ALL
_SUB, _GET, _UPDATE = Action.SUB, Action.GET, Action.UPDATE


def _group(field: str, *actions: Action) -> Touch:
    return Touch(Kind.GROUP, Field(field), Right.READ, actions)


def _topic(*actions: Action, absent: Absent = Absent.INVALID) -> Touch:
    """Return the touch of a topic by a request about offsets."""
    return Touch(Kind.TOPIC, Field("topic", absent, names_progress=True), Right.READ, actions)


def _whole(action: Action) -> Touch:
    return Touch(Kind.CLUSTER, WHOLE, Right.ADMIN, (action,))


_OWN_SESSION: Final = Touch(
    Kind.GROUP,
    Field("producerGroup", Absent.NOTHING),
    Right.NONE,
    (),
    reason="only the asking connection leaves the group",
)

CLIENTS: Final = (
    RequestSpec(
        Code.HEART_BEAT,
        answer=h.HeartbeatResponse,
        touches=(
            Touch(Kind.GROUP, HEARTBEAT, Right.READ, (_SUB,)),
            Touch(Kind.GROUP, Found("each producer group"), Right.USE, (Action.PUB, _SUB)),
        ),
        ports=BOTH,
        body=_JSON,
    ),
    RequestSpec(
        Code.UNREGISTER_CLIENT,
        h.UnregisterClient,
        touches=(
            Touch(Kind.GROUP, Field("consumerGroup", Absent.NOTHING), Right.READ, (_SUB,)),
            _OWN_SESSION,
        ),
        ports=BOTH,
        is_shared=True,
    ),
    RequestSpec(
        Code.CHECK_CLIENT_CONFIG,
        touches=(free("only says whether an expression can be read"),),
        ports=BOTH,
        body=_JSON,
        is_shared=True,
    ),
    RequestSpec(
        Code.GET_CONSUMER_LIST_BY_GROUP,
        h.GetConsumerListByGroup,
        touches=(_group("consumerGroup", _SUB, _GET),),
        ports=BOTH,
        is_shared=True,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.GET_CONSUMER_CONNECTION_LIST,
        h.GetConsumerConnectionList,
        touches=(_group("consumerGroup", _GET),),
        ports=BOTH,
        is_shared=True,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.GET_PRODUCER_CONNECTION_LIST,
        h.GetProducerConnectionList,
        touches=(_whole(_GET),),
        ports=BOTH,
        is_shared=True,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.GET_ALL_PRODUCER_INFO, touches=(_whole(_GET),), ports=BROKER, answer_size=_ALL
    ),
    RequestSpec(
        Code.GET_CONSUMER_RUNNING_INFO,
        h.GetConsumerRunningInfo,
        touches=(_group("consumerGroup", _GET),),
        ports=BOTH,
        is_shared=True,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.CONSUME_MESSAGE_DIRECTLY,
        h.ConsumeMessageDirectly,
        touches=(
            _group("consumerGroup", _SUB),
            Touch(Kind.TOPIC, Field("topic", Absent.NOTHING), Right.READ, (_SUB,)),
            Touch(Kind.TOPIC, Found("the topic of the message"), Right.READ, (_SUB, _GET)),
        ),
        ports=BOTH,
    ),
)

OFFSETS: Final = (
    RequestSpec(
        Code.QUERY_CONSUMER_OFFSET,
        h.QueryConsumerOffset,
        h.OffsetResponse,
        touches=(_topic(_SUB, _GET), _group("consumerGroup", _SUB, _GET)),
        ports=BOTH,
    ),
    RequestSpec(
        Code.UPDATE_CONSUMER_OFFSET,
        h.UpdateConsumerOffset,
        touches=(_topic(_SUB, _UPDATE), _group("consumerGroup", _SUB, _UPDATE)),
        ports=BOTH,
    ),
    *(
        RequestSpec(
            code,
            touches=(Touch(Kind.GROUP, LOCKS, Right.READ, (_SUB,)),),
            ports=BOTH,
            body=_JSON,
            answer_size=_WIDE,
        )
        for code in (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ)
    ),
    RequestSpec(
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        h.ResetOffset,
        touches=(_topic(_UPDATE), _group("group", _UPDATE)),
        ports=BOTH,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        h.GetConsumerStatus,
        touches=(_topic(_GET), _group("group", _GET)),
        ports=BOTH,
        is_shared=True,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.CLONE_GROUP_OFFSET,
        h.CloneGroupOffset,
        touches=(
            _topic(_UPDATE, absent=Absent.NOTHING),
            Touch(
                Kind.TOPIC,
                Found("each topic in which the source has offsets (without `topic`)"),
                Right.READ,
                (_UPDATE,),
            ),
            _group("srcGroup", _SUB, _GET),
            _group("destGroup", _UPDATE),
        ),
        ports=BROKER,
    ),
    RequestSpec(
        Code.GET_ALL_CONSUMER_OFFSET, touches=(_whole(_GET),), ports=BROKER, answer_size=_ALL
    ),
    RequestSpec(Code.GET_ALL_DELAY_OFFSET, touches=(_whole(_GET),), ports=BROKER, answer_size=_ALL),
)

PROGRESS: Final = (
    RequestSpec(
        Code.GET_CONSUME_STATS,
        h.GetConsumeStats,
        touches=(
            _group("consumerGroup", _GET),
            _topic(_GET, absent=Absent.NOTHING),
            Touch(
                Kind.TOPIC, Field("topicList", Absent.NOTHING, separator=";"), Right.READ, (_GET,)
            ),
            Touch(
                Kind.TOPIC,
                Found("each other topic of the group that is to be in the answer"),
                Right.READ,
                (_SUB, _GET),
            ),
        ),
        ports=BOTH,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.GET_BROKER_CONSUME_STATS,
        h.GetConsumeStatsInBroker,
        touches=(_whole(_GET),),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.QUERY_CONSUME_TIME_SPAN,
        h.QueryConsumeTimeSpan,
        touches=(_topic(_GET), _group("group", _GET)),
        ports=BOTH,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.QUERY_CORRECTION_OFFSET,
        h.QueryCorrectionOffset,
        touches=(
            Touch(
                Kind.GROUP,
                Field("filterGroups", Absent.NOTHING, separator=","),
                Right.READ,
                (_GET,),
            ),
            _topic(_GET),
            _group("compareGroup", _GET),
            Touch(
                Kind.GROUP,
                Found("each other group whose offsets are to count"),
                Right.READ,
                (_SUB, _GET),
            ),
        ),
        ports=BROKER,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        h.QuerySubscriptionByConsumer,
        touches=(_topic(_GET, absent=Absent.NOTHING), _group("group", _GET)),
        ports=BROKER,
    ),
    RequestSpec(
        Code.QUERY_TOPICS_BY_CONSUMER,
        h.QueryTopicsByConsumer,
        touches=(_group("group", _GET),),
        ports=BROKER,
        answer_size=_WIDE,
    ),
)

SETTINGS: Final = (
    RequestSpec(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        touches=(Touch(Kind.GROUP, GROUP_CONFIG, Right.ADMIN, (Action.CREATE, _UPDATE)),),
        ports=BOTH,
        body=_JSON,
        is_shared=True,
    ),
    RequestSpec(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        touches=(Touch(Kind.GROUP, GROUP_CONFIGS, Right.ADMIN, (Action.CREATE, _UPDATE)),),
        ports=BROKER,
        body=_JSON,
    ),
    RequestSpec(
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        touches=(_whole(_GET),),
        ports=BOTH,
        is_shared=True,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        h.GetSubscriptionGroupConfig,
        touches=(_group("group", _GET),),
        ports=BROKER,
    ),
    RequestSpec(
        Code.DELETE_SUBSCRIPTIONGROUP,
        h.DeleteSubscriptionGroup,
        touches=(Touch(Kind.GROUP, Field("groupName"), Right.ADMIN, (Action.DELETE,)),),
        ports=BROKER,
    ),
)

GROUPS: Final = (*CLIENTS, *OFFSETS, *PROGRESS, *SETTINGS)
