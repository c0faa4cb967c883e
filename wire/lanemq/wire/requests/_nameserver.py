"""Requests to a name server, which has no accounts, as Apache's has none."""

from typing import Final

from .. import headers as h
from .._codes import RequestCode as Code
from ._spec import NAME_SERVER, AnswerSize, BodyKind, RequestSpec, free

_FREE: Final = (free("name servers have no accounts"),)
_WITH_HEADERS: Final = (
    (Code.PUT_KV_CONFIG, h.PutKVConfig, None),
    (Code.GET_KV_CONFIG, h.GetKVConfig, h.GetKVConfigResponse),
    (Code.DELETE_KV_CONFIG, h.DeleteKVConfig, None),
    (Code.GET_KVLIST_BY_NAMESPACE, h.GetKVListByNamespace, None),
    (Code.UNREGISTER_BROKER, h.UnregisterBroker, None),
    (Code.GET_ROUTEINFO_BY_TOPIC, h.GetRouteInfo, None),
    (Code.WIPE_WRITE_PERM_OF_BROKER, h.WipeWritePermOfBroker, h.WipeWritePermOfBrokerResponse),
    (Code.ADD_WRITE_PERM_OF_BROKER, h.AddWritePermOfBroker, h.AddWritePermOfBrokerResponse),
    (Code.DELETE_TOPIC_IN_NAMESRV, h.DeleteTopicFromNamesrv, None),
    (Code.GET_TOPICS_BY_CLUSTER, h.GetTopicsByCluster, None),
    (Code.GET_BROKER_CLUSTER_INFO, None, None),
    (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, None),
    (Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, None),
    (Code.GET_UNIT_TOPIC_LIST, None, None),
    (Code.GET_HAS_UNIT_SUB_TOPIC_LIST, None, None),
    (Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, None),
    (Code.GET_NAMESRV_CONFIG, None, None),
)
_LISTS: Final = (
    Code.GET_KVLIST_BY_NAMESPACE,
    Code.GET_TOPICS_BY_CLUSTER,
    Code.GET_BROKER_CLUSTER_INFO,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    Code.GET_UNIT_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
)
_ANSWERS: Final = {
    # A logical topic of 2,048 queues, each with several segments, needs more than AnswerSize.WIDE.
    Code.GET_ROUTEINFO_BY_TOPIC: AnswerSize.ALL,
    **dict.fromkeys(_LISTS, AnswerSize.ALL),
}

ROUTES: Final = (
    *(
        RequestSpec(
            code,
            header,
            answer,
            touches=_FREE,
            ports=NAME_SERVER,
            answer_size=_ANSWERS.get(code, AnswerSize.ONE),
        )
        for code, header, answer in _WITH_HEADERS
    ),
    RequestSpec(
        Code.REGISTER_BROKER,
        h.RegisterBroker,
        h.RegisterBrokerResponse,
        touches=_FREE,
        ports=NAME_SERVER,
        body=BodyKind.LONG,
        answer_size=AnswerSize.ALL,  # it has the order of all topics that have one
    ),
    RequestSpec(
        Code.QUERY_DATA_VERSION,
        h.QueryDataVersion,
        h.QueryDataVersionResponse,
        touches=_FREE,
        ports=NAME_SERVER,
        body=BodyKind.JSON,
    ),
    RequestSpec(Code.UPDATE_NAMESRV_CONFIG, touches=_FREE, ports=NAME_SERVER, body=BodyKind.TEXT),
)
