"""The commands of mqadmin in an order in which they can follow each other, with arguments.

The topic ``Shared`` has two messages in each of two queues, ``live_group`` has a consumer that has
read them, and ``gone_group`` only its offsets.
``{broker}``, ``{namesrv}`` and ``{folder}`` are addresses and a directory of the cluster,
``{offset_id}``, ``{unique_id}`` and ``{client_id}`` those of its first message and its consumer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ENDLESS_S: Final = 15
"""Seconds after which a command that would go on for ever is interrupted: on a busy machine it has
done by then what it does first."""
UNANSWERED_S: Final = 60
"""Seconds for a command that Apache's broker does not answer, which is not repeated then."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and how its output is compared."""

    line: str
    """The command and its arguments, which contain no blanks."""
    seconds: int | None = None
    """Seconds after which it is interrupted, if it does not end by itself."""
    file: str | None = None
    """A file in ``{folder}`` that it writes: its content is part of the output."""
    keys_only: bool = False
    """True if values behind ``=`` or ``:`` are the broker's own."""
    in_order: bool = True
    """False if the lines come in no order."""
    numbers: bool = False
    """True if its numbers are measured, and differ from run to run."""

    @property
    def command(self) -> str:
        """The command without arguments."""
        return self.line.split()[0]


_BOTH: Final = (
    Step("updateTopic -c DefaultCluster -t Made -r 2 -w 2"),
    Step("updateTopic -b {broker} -t Ordered -r 2 -w 2 -o true"),
    Step("updateTopic -c DefaultCluster -t bad!name"),
    Step("updateTopic -c Nowhere -t Made"),
    Step("updateTopicPerm -b {broker} -t Made -p 6"),
    Step("updateTopicPerm -c DefaultCluster -t Made -p 4"),
    Step("updateTopicPerm -c DefaultCluster -t Missing -p 4"),
    Step("updateSubGroup -c DefaultCluster -g made_group -r 5"),
    Step("updateSubGroup -b {broker} -g made_group -r 6 -s true -d false"),
    Step("topicList", in_order=False),
    Step("topicList -c", in_order=False),
    Step("topicRoute -t Shared"),
    Step("topicRoute -t Shared -l"),
    Step("topicRoute -t Missing"),
    Step("topicClusterList -t Shared"),
    Step("topicStatus -t Shared"),
    Step("topicStatus -t Missing"),
    Step("brokerStatus -b {broker}", keys_only=True),
    Step("brokerStatus -c DefaultCluster", keys_only=True),
    Step("queryMsgByKey -t Shared -k k0"),
    Step("queryMsgByKey -t Shared -k missing"),
    Step("queryMsgByUniqueKey -t Shared -i {unique_id}", in_order=False),
    Step("queryMsgByUniqueKey -t Shared -i {unique_id} -g live_group -d {client_id}"),
    Step("queryMsgByOffset -t Shared -b broker-a -i 0 -o 0", in_order=False),
    Step("queryMsgByOffset -t Shared -b broker-a -i 0 -o 99", in_order=False),
    Step("queryMsgTraceById -i {unique_id}"),
    Step("printMsg -t Shared -d true", in_order=False),
    Step("printMsgByQueue -t Shared -a broker-a -i 0 -p true -d true"),
    Step("printMsgByQueue -t Shared -a broker-a -i 0 -f true"),
    Step("sendMessage -t Made -p text -k key -c tag -b broker-a -i 1"),
    Step("updateTopicPerm -c DefaultCluster -t Made -p 6"),
    Step("sendMessage -t Made -p text -k key -c tag -b broker-a -i 1"),
    Step("sendMsgStatus -b broker-a -s 10 -c 2", numbers=True),
    Step("checkMsgSendRT -t Made -a 2 -s 10", numbers=True),
    Step("clusterRT -a 1 -s 10 -c DefaultCluster -i 1", numbers=True, seconds=ENDLESS_S),
    # An active topic had messages within the last minute, as clusterRT sends them.
    Step("statsAll -a -t broker-a", numbers=True, in_order=False),
    Step("brokerConsumeStats -b {broker} -t 30000"),
    Step("producerConnection -g live_producers -t Shared"),
    Step("producerConnection -g missing_producers -t Shared"),
    Step("producer -b {broker}"),
    Step("consumerConnection -g live_group"),
    Step("consumerConnection -g gone_group"),
    Step("consumerProgress -g live_group"),
    Step("consumerProgress -g gone_group"),
    Step("consumerProgress -g missing_group"),
    Step("consumerProgress", in_order=False),
    Step("consumerStatus -g live_group"),
    Step("consumerStatus -g live_group -i {client_id}", keys_only=True),
    Step("consumerStatus -g gone_group"),
    Step("getConsumerConfig -g live_group", keys_only=True),
    Step("cloneGroupOffset -s gone_group -d cloned_group -t Shared"),
    Step("consumerProgress -g cloned_group"),
    Step("resetOffsetByTime -g gone_group -t Shared -s 0 -f true"),
    Step("consumerProgress -g gone_group"),
    Step("resetOffsetByTime -g gone_group -t Missing -s 0 -f true"),
    Step("skipAccumulatedMessage -g gone_group -t Shared -f true"),
    Step("consumerProgress -g gone_group"),
    Step("queryCq -t Shared -q 0 -i 0 -c 2 -b {broker}"),
    Step("queryCq -t Shared -q 0 -i 0 -c 2 -b {broker} -g live_group"),
    Step("consumeMessage -t Shared -b broker-a -i 0 -o 0 -c 2", in_order=False),
    Step("clusterList", numbers=True),
    Step("clusterList -m", numbers=True),
    Step("statsAll -t Shared", numbers=True, in_order=False),
    Step("allocateMQ -t Shared -i 10.0.0.1,10.0.0.2"),
    Step("updateKvConfig -s space -k key -v value"),
    Step("deleteKvConfig -s space -k key"),
    Step("deleteKvConfig -s space -k missing"),
    Step("updateOrderConf -t Ordered -m get"),
    Step("updateOrderConf -t Ordered -m put -v broker-a:4"),
    Step("updateOrderConf -t Ordered -m get"),
    Step("updateOrderConf -t Ordered -m delete"),
    Step("updateOrderConf -t Missing -m get"),
    Step("wipeWritePerm -b broker-a", numbers=True),
    Step("topicRoute -t Shared"),
    Step("addWritePerm -b broker-a", numbers=True),
    Step("topicRoute -t Shared"),
    Step("wipeWritePerm -b broker-z", numbers=True),
    Step("getNamesrvConfig", keys_only=True),
    # With true, brokers ask name servers at their next registration whether Ordered is ordered.
    Step("updateNamesrvConfig -k orderMessageEnable -v false"),
    Step("getBrokerConfig -b {broker}", keys_only=True, in_order=False),
    Step("updateBrokerConfig -b {broker} -k deleteWhen -v 05"),
    Step("updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 49"),
    Step("cleanExpiredCQ -b {broker}"),
    Step("cleanExpiredCQ -c DefaultCluster"),
    Step("deleteExpiredCommitLog -b {broker}"),
    Step("exportMetadata -c DefaultCluster -f {folder}", file="metadata.json"),
    Step("exportMetadata -b {broker} -t -f {folder}", file="topic.json"),
    Step("exportMetadata -b {broker} -g -f {folder}", file="subscriptionGroup.json"),
    Step("exportConfigs -c DefaultCluster -f {folder}", file="configs.json"),
    Step("exportMetrics -c DefaultCluster -f {folder}", file="metrics.json", numbers=True),
)


def _of_4() -> Iterator[Step]:
    yield Step("queryMsgById -i {offset_id}", in_order=False)
    yield Step("queryMsgById -i {offset_id} -g live_group -d {client_id}")
    yield Step("updateAclConfig -b {broker} -a someone -s 12345678 -i DENY -t Shared=PUB")
    yield Step("getAclConfig -b {broker}", seconds=UNANSWERED_S)
    yield Step("updateGlobalWhiteAddr -b {broker} -g 10.0.0.1")
    yield Step("clusterAclConfigVersion -b {broker}", seconds=UNANSWERED_S)
    yield Step("deleteAclConfig -b {broker} -a someone")


def _of_5() -> Iterator[Step]:
    yield Step("queryMsgById -i {offset_id} -t Shared", in_order=False)
    yield Step("queryMsgById -i {offset_id} -t Shared -g live_group -d {client_id}")
    yield Step("updateTopic -b {broker} -t Typed -r 1 -w 1 -a +message.type=FIFO")
    yield Step("updateTopic -b {broker} -t Typed -r 1 -w 1 -a +message.type=ODD")
    yield Step("updateTopicList -b {broker} -f {folder}/topics.json")
    yield Step("updateSubGroupList -b {broker} -f {folder}/groups.json")
    yield Step("topicRoute -t Listed")
    yield Step("consumerProgress -g live_group -t Shared")
    yield Step("resetOffsetByTime -g gone_group -t Shared -s -1 -b {broker} -q 0 -o 1")
    yield Step("setConsumeMode -b {broker} -t Shared -g gone_group -m PULL -q 0")
    yield Step("setConsumeMode -b {broker} -t Shared -g gone_group -m POP -q 0")
    yield Step("addBroker -c {broker} -b /nowhere/broker.conf")
    yield Step("removeBroker -c {broker} -b DefaultCluster:broker-b:1")
    yield Step("resetMasterFlushOffset -b {broker} -o 0")
    yield Step("updateStaticTopic -c DefaultCluster -t Static -qn 2")
    yield Step("topicRoute -t Static")
    yield Step("topicStatus -t Static")
    yield Step("remappingStaticTopic -c DefaultCluster -t Static")
    yield Step("exportMetadataInRocksDB -p {folder}/nothing -t topics")
    yield Step("rocksDBConfigToJson -b {broker} -c DefaultCluster -t topics")
    yield Step("checkRocksdbCqWriteProgress -c DefaultCluster -t Shared")
    yield Step("exportPopRecord -b {broker} -d true")
    yield Step("haStatus -b {broker}", numbers=True)
    yield Step("getSyncStateSet -a {namesrv} -b broker-a")
    yield Step("getBrokerEpoch -b broker-a")
    for command in ("getControllerMetaData", "getControllerConfig"):
        yield Step(f"{command} -a {{namesrv}}")
    yield Step("updateControllerConfig -a {namesrv} -k key -v value")
    yield Step("electMaster -a {namesrv} -b 1 -bn broker-a -c DefaultCluster")
    yield Step("cleanBrokerMetadata -a {namesrv} -bn broker-a -c DefaultCluster")
    yield Step("dumpCompactionLog -f {folder}/nothing")
    yield Step("getColdDataFlowCtrInfo -b {broker}")
    yield Step("updateColdDataFlowCtrGroupConfig -b {broker} -g gone_group -v 100")
    yield Step("removeColdDataFlowCtrGroupConfig -b {broker} -g gone_group")
    yield Step("setCommitLogReadAheadMode -b {broker} -m 1")
    yield Step("createUser -b {broker} -u someone -p 12345678")
    yield Step("updateUser -b {broker} -u someone -p 87654321")
    yield Step("getUser -b {broker} -u someone")
    yield Step("listUser -b {broker}")
    yield Step("copyUser -f {broker} -t {broker} -u someone")
    yield Step("createAcl -b {broker} -s User:someone -r Topic:Shared -a Pub -d Allow")
    yield Step("updateAcl -b {broker} -s User:someone -r Topic:Shared -a Sub -d Allow")
    yield Step("getAcl -b {broker} -s User:someone")
    yield Step("listAcl -b {broker}")
    yield Step("copyAcl -f {broker} -t {broker} -s User:someone")
    yield Step("deleteAcl -b {broker} -s User:someone")
    yield Step("deleteUser -b {broker} -u someone")


_LAST: Final = (
    Step("deleteSubGroup -b {broker} -g made_group -r true"),
    Step("deleteSubGroup -c DefaultCluster -g missing_group"),
    Step("deleteTopic -c DefaultCluster -t Made"),
    Step("topicRoute -t Made"),
    Step("cleanUnusedTopic -b {broker}"),
    Step("startMonitoring", seconds=ENDLESS_S),
    Step("topicList", in_order=False),
)


def steps(version: str) -> list[Step]:
    """Return the commands of one release of mqadmin, in their order."""
    own = _of_5() if version.startswith("5") else _of_4()
    return [*_BOTH, *own, *_LAST]
