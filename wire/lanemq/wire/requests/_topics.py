"""Requests about topics, logical queues, and the settings and files of a broker."""

from typing import Final

from .. import headers as h
from .._codes import RequestCode as Code
from ._bodies import TOPIC_CONFIGS
from ._rights import Action, Kind, Right
from ._spec import (
    BOTH,
    BROKER,
    PROXY,
    WHOLE,
    Absent,
    AnswerSize,
    BodyKind,
    Field,
    RequestSpec,
    Touch,
)

_WIDE, _ALL = AnswerSize.WIDE, AnswerSize.ALL
_READS_WHOLE: Final = Touch(Kind.CLUSTER, WHOLE, Right.ADMIN, (Action.GET,))
_CHANGES_WHOLE: Final = Touch(Kind.CLUSTER, WHOLE, Right.ADMIN, (Action.UPDATE,))
_ASKS: Final = Touch(Kind.TOPIC, Field("topic"), Right.USE, (Action.GET,))

TOPICS: Final = (
    RequestSpec(
        Code.UPDATE_AND_CREATE_TOPIC,
        h.CreateTopic,
        touches=(Touch(Kind.TOPIC, Field("topic"), Right.ADMIN, (Action.CREATE,)),),
        ports=BROKER,
    ),
    RequestSpec(
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        touches=(Touch(Kind.TOPIC, TOPIC_CONFIGS, Right.ADMIN, (Action.CREATE,)),),
        ports=BROKER,
        body=BodyKind.JSON,
    ),
    RequestSpec(  # answered with the way to logical queues
        Code.UPDATE_AND_CREATE_STATIC_TOPIC,
        h.CreateTopic,
        touches=(Touch(Kind.TOPIC, Field("topic"), Right.ADMIN, (Action.CREATE,)),),
        ports=BROKER,
    ),
    RequestSpec(
        Code.DELETE_TOPIC_IN_BROKER,
        h.DeleteTopic,
        touches=(Touch(Kind.TOPIC, Field("topic"), Right.ADMIN, (Action.DELETE,)),),
        ports=BROKER,
    ),
    RequestSpec(Code.GET_ALL_TOPIC_CONFIG, touches=(_READS_WHOLE,), ports=BROKER, answer_size=_ALL),
    RequestSpec(Code.GET_TOPIC_CONFIG, h.GetTopicConfig, touches=(_ASKS,), ports=BROKER),
    RequestSpec(
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        touches=(_READS_WHOLE,),
        ports=BROKER,
        answer_size=_ALL,
    ),
    RequestSpec(
        Code.GET_TOPIC_STATS_INFO,
        h.GetTopicStatsInfo,
        touches=(_ASKS,),
        ports=BOTH,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.QUERY_TOPIC_CONSUME_BY_WHO,
        h.QueryTopicConsumeByWho,
        touches=(_ASKS,),
        ports=BROKER,
        answer_size=_WIDE,
    ),
)

LOGICAL_QUEUES: Final = (
    RequestSpec(
        Code.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING,
        h.QueryLogicalQueueMapping,
        touches=(
            Touch(Kind.TOPIC, Field("topic"), Right.USE, (Action.GET, Action.PUB, Action.SUB)),
        ),
        ports=BROKER,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING,
        h.DeleteLogicalQueueMapping,
        touches=(_CHANGES_WHOLE,),
        ports=BROKER,
    ),
    *(
        RequestSpec(
            code,
            touches=(_CHANGES_WHOLE,),
            ports=BROKER,
            body=BodyKind.JSON,
            answer_size=_WIDE,
        )
        for code in (
            Code.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING,
            Code.SEAL_TOPIC_LOGICAL_QUEUE,
            Code.REUSE_TOPIC_LOGICAL_QUEUE,
            Code.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE,
            Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE,
            Code.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT,
            Code.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY,
            Code.APPEND_SUPERSEDED_MESSAGES,
            Code.CLAIM_LOGICAL_INDICES,
        )
    ),
)

SERVER: Final = (
    RequestSpec(
        Code.UPDATE_BROKER_CONFIG, touches=(_CHANGES_WHOLE,), ports=BROKER, body=BodyKind.TEXT
    ),
    RequestSpec(
        Code.GET_BROKER_CONFIG,
        answer=h.GetBrokerConfigResponse,
        touches=(_READS_WHOLE,),
        ports=BROKER,
    ),
    *(
        RequestSpec(code, touches=(_CHANGES_WHOLE,), ports=BROKER, body=BodyKind.TEXT)
        for code in (
            Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
            Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
            Code.SET_COMMITLOG_READ_MODE,
        )
    ),
    RequestSpec(
        Code.GET_COLD_DATA_FLOW_CTR_INFO, touches=(_READS_WHOLE,), ports=BROKER, answer_size=_WIDE
    ),
    RequestSpec(Code.PROXY_STATUS, touches=(_READS_WHOLE,), ports=PROXY, answer_size=_ALL),
    RequestSpec(Code.PROXY_MOVE_QUEUE, h.ProxyMoveQueue, touches=(_CHANGES_WHOLE,), ports=PROXY),
    RequestSpec(
        Code.PROXY_QUEUES, h.ProxyQueues, touches=(_READS_WHOLE,), ports=PROXY, answer_size=_ALL
    ),
    RequestSpec(
        Code.PROXY_DRAIN_BROKER,
        h.ProxyDrainBroker,
        touches=(_CHANGES_WHOLE,),
        ports=PROXY,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.PROXY_LOST_MESSAGES,
        h.ProxyLostMessages,
        touches=(_CHANGES_WHOLE,),
        ports=PROXY,
        answer_size=_ALL,
    ),
    RequestSpec(Code.GET_BROKER_RUNTIME_INFO, touches=(_READS_WHOLE,), ports=BROKER),
    RequestSpec(
        Code.VIEW_BROKER_STATS_DATA,
        h.ViewBrokerStatsData,
        touches=(_READS_WHOLE,),
        ports=BROKER,
    ),
    *(
        RequestSpec(code, touches=(_CHANGES_WHOLE,), ports=BROKER)
        for code in (
            Code.CLEAN_EXPIRED_CONSUMEQUEUE,
            Code.CLEAN_UNUSED_TOPIC,
            Code.DELETE_EXPIRED_COMMITLOG,
        )
    ),
    RequestSpec(
        Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        h.CheckRocksdbCqWriteProgress,
        touches=(Touch(Kind.TOPIC, Field("topic", Absent.EVERYTHING), Right.USE, (Action.GET,)),),
        ports=BROKER,
        answer_size=_WIDE,
    ),
    RequestSpec(
        Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
        h.ExportRocksdbConfigToJson,
        touches=(_READS_WHOLE,),
        ports=BROKER,
    ),
)

ACCOUNTS: Final = (
    RequestSpec(
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        h.CreateAccessConfig,
        touches=(_CHANGES_WHOLE,),
        ports=BROKER,
    ),
    RequestSpec(
        Code.DELETE_ACL_CONFIG, h.DeleteAccessConfig, touches=(_CHANGES_WHOLE,), ports=BROKER
    ),
    RequestSpec(
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        h.UpdateGlobalWhiteAddrsConfig,
        touches=(_CHANGES_WHOLE,),
        ports=BROKER,
    ),
    RequestSpec(
        Code.GET_BROKER_CLUSTER_ACL_INFO,
        answer=h.GetBrokerAclConfigResponse,
        touches=(_READS_WHOLE,),
        ports=BROKER,
        answer_size=_ALL,
    ),
    *(
        RequestSpec(code, touches=(_CHANGES_WHOLE,), ports=BROKER, body=BodyKind.JSON)
        for code in (
            Code.AUTH_CREATE_USER,
            Code.AUTH_UPDATE_USER,
            Code.AUTH_DELETE_USER,
            Code.AUTH_CREATE_ACL,
            Code.AUTH_UPDATE_ACL,
            Code.AUTH_DELETE_ACL,
        )
    ),
    *(
        RequestSpec(code, touches=(_READS_WHOLE,), ports=BROKER, answer_size=_ALL)
        for code in (
            Code.AUTH_GET_USER,
            Code.AUTH_LIST_USER,
            Code.AUTH_GET_ACL,
            Code.AUTH_LIST_ACL,
        )
    ),
)

OPERATIONS: Final = (*TOPICS, *LOGICAL_QUEUES, *SERVER, *ACCOUNTS)
