"""The commands for which lanemq prints something else than Apache's brokers, with the reasons."""

from typing import Final

_NO_ACCOUNTS: Final = (
    "the broker here has no accounts: lanemq answers that it does not support the request, Apache's"
    " with an internal error, or not at all"
)
_NO_REPLICATION: Final = "lanemq has no replication"
_NO_POP: Final = "lanemq has no POP consumption"
_KEYS: Final = "lanemq lists the keys that it uses, and those of its own"
_RUNTIME: Final = "lanemq adds figures of its own, and has those of both releases"
_CLASSIC: Final = "4.9.7 does it from the tool while the group is offline, lanemq at the broker"
_STATIC: Final = "lanemq has logical queues in place of static topics, and refuses with that text"
_READS: Final = "lanemq does not limit reads of old messages, and refuses with that text"
_PROPERTIES: Final = "lanemq adds MSG_REGION and TRACE_ON to messages, as 5.3.3 does"
_SELF: Final = "5.3.3 lists the topic among its own consumer groups"

DIFFERENCES: Final[dict[str, dict[str, str]]] = {
    "4.9.7": {
        "updateTopic -c DefaultCluster -t bad!name": "lanemq names the topic and what is wrong",
        "brokerStatus": _RUNTIME,
        "queryMsgById -i {offset_id}": _PROPERTIES,
        "queryMsgByUniqueKey -t Shared -i {unique_id}": _PROPERTIES,
        "queryMsgByOffset": _PROPERTIES,
        "printMsg": _PROPERTIES,
        "printMsgByQueue": _PROPERTIES,
        "consumeMessage": _PROPERTIES,
        "resetOffsetByTime": _CLASSIC,
        "skipAccumulatedMessage": _CLASSIC,
        "getNamesrvConfig": _KEYS,
        "getBrokerConfig": _KEYS,
        "exportMetrics": _KEYS,
        "updateAclConfig": _NO_ACCOUNTS,
        "getAclConfig": _NO_ACCOUNTS,
        "updateGlobalWhiteAddr": _NO_ACCOUNTS,
        "clusterAclConfigVersion": _NO_ACCOUNTS,
        "deleteAclConfig": _NO_ACCOUNTS,
    },
    "5.3.3": {
        "updateTopic -c DefaultCluster -t bad!name": "lanemq names the topic and what is wrong",
        "topicList": "5.3.3 has system topics for POP and replication; " + _SELF,
        "brokerStatus": _RUNTIME + "; it has no queues for POP and lite pulls",
        "queryMsgById": _SELF,
        "queryMsgByUniqueKey": _SELF,
        "queryMsgByOffset": _SELF,
        "statsAll": _SELF,
        "cloneGroupOffset": "lanemq makes the group's offsets as 4.9.7 does; 5.3.3 wants the group",
        "getNamesrvConfig": _KEYS,
        "getBrokerConfig": _KEYS,
        "exportConfigs": _KEYS,
        "exportMetrics": _KEYS,
        "setConsumeMode": _NO_POP,
        "exportPopRecord": _NO_POP,
        "resetMasterFlushOffset": _NO_REPLICATION,
        "haStatus": _NO_REPLICATION,
        "getBrokerEpoch": _NO_REPLICATION,
        "updateStaticTopic": _STATIC,
        "topicRoute -t Static": _STATIC,
        "topicStatus -t Static": _STATIC,
        "remappingStaticTopic": _STATIC,
        "getColdDataFlowCtrInfo": _READS,
        "updateColdDataFlowCtrGroupConfig": _READS,
        "removeColdDataFlowCtrGroupConfig": _READS,
        "setCommitLogReadAheadMode": _READS,
        "createUser": _NO_ACCOUNTS,
        "updateUser": _NO_ACCOUNTS,
        "getUser": _NO_ACCOUNTS,
        "listUser": _NO_ACCOUNTS,
        "copyUser": _NO_ACCOUNTS,
        "deleteUser": _NO_ACCOUNTS,
        "createAcl": _NO_ACCOUNTS,
        "updateAcl": _NO_ACCOUNTS,
        "getAcl": _NO_ACCOUNTS,
        "listAcl": _NO_ACCOUNTS,
        "copyAcl": _NO_ACCOUNTS,
        "deleteAcl": _NO_ACCOUNTS,
    },
}
"""By release and by the beginning of a command line."""


def difference(version: str, line: str) -> str | None:
    """Return why lanemq's output of a command differs from that of Apache's servers, if it may."""
    found = [
        (len(beginning), reason)
        for beginning, reason in DIFFERENCES[version].items()
        if f"{line} ".startswith(f"{beginning} ")
    ]
    return max(found)[1] if found else None
