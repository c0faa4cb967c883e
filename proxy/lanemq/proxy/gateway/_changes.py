"""The requests at the port for routes that change something, and who may make them."""

from collections.abc import Callable
from typing import Final

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame

from ..net._dispatch import Guard
from ..net._session import Session

Code = RequestCode
QUERY_DATA_VERSION: Final = 322  # and 904 is the heartbeat of a broker

OF_BROKERS: Final = frozenset(
    {Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, QUERY_DATA_VERSION, 904}
)
"""Requests of brokers, which belong to the name servers themselves."""
TO_ALL: Final = frozenset(
    {
        Code.PUT_KV_CONFIG,
        Code.DELETE_KV_CONFIG,
        Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.ADD_WRITE_PERM_OF_BROKER,
        Code.DELETE_TOPIC_IN_NAMESRV,
        Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.UPDATE_NAMESRV_CONFIG,
    }
)
"""Requests that tools send to each name server: for them the proxy is the only one."""


READS: Final = frozenset(
    {
        Code.GET_KV_CONFIG,
        Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.GET_KVLIST_BY_NAMESPACE,
        Code.GET_TOPICS_BY_CLUSTER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.GET_NAMESRV_CONFIG,
        Code.PROXY_STATUS,
        Code.PROXY_QUEUES,
    }
)
"""Requests that change nothing. Name servers ask nobody for an account, so all else, what is newer
than lanemq among it, is for those who run the cluster."""


def guard_of_changes(admits: Callable[[str], bool]) -> Guard:
    """Return a check that requests which may change something come from addresses that ``admits``
    takes; others are refused with NO_PERMISSION."""

    def check(frame: Frame, session: Session) -> None:
        is_open = (
            frame.code in READS or frame.code in OF_BROKERS
        )  # which are refused in other words
        if not is_open and not admits(session.peer.host):
            remark = (
                f"request {frame.code} may change the cluster, and this proxy takes those from its "
                f"own machine and from the addresses in changesFrom: {session.peer.host} is none"
            )
            raise Refused(ResponseCode.NO_PERMISSION, remark)

    return check
