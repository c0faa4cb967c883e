"""Reading and changing the configuration of a running broker.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.getBrokerConfig, updateBrokerConfig.
"""

from typing import Final

from lanemq.local import get_logger
from lanemq.wire import (
    LONG_MAX,
    Refused,
    RequestCode,
    ResponseCode,
    decode_properties_text,
    encode_properties_text,
    fastjson,
)
from lanemq.wire.bodies import DataVersion, TopicConfig
from lanemq.wire.frame import Frame

from ..._settings import ConfigError
from ...net._dispatch import Handlers
from ...net._session import Session
from ..context._context import BrokerContext

NEVER_OTHERWISE: Final = {"filterServerNums": "0", "slaveReadEnable": "false"}
"""Keys of Apache's that mqadmin's ``exportConfigs`` takes for granted, with what is so here."""
NO_COLD_LIMITS: Final = {
    "runtimeTable": {},
    "configTable": {},
    "cgColdReadThreshold": LONG_MAX,
    "globalColdReadThreshold": LONG_MAX,
    "globalAcc": 0,
}
"""Source: RocketMQ 5.3.3, AdminBrokerProcessor.getColdDataFlowCtrInfo."""
NO_COLD_CONTROL: Final = (
    "lanemq does not limit reads of old messages, and leaves reading ahead to the system: "
    "maxTransferCountOnMessageInDisk and maxTransferBytesOnMessageInDisk bound one pull of them"
)
LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register GET_BROKER_CONFIG (26), UPDATE_BROKER_CONFIG (25), and 2001 to 2004, about reads of
    old messages."""
    version = DataVersion(broker.now_ms())

    def get(frame: Frame, session: Session) -> Frame:
        """Answer ``key=value`` lines, and in ``version`` the number of their changes."""
        fields = {"version": version.encode().decode()}
        properties = {**NEVER_OTHERWISE, **broker.config.to_properties()}
        properties["useTLS"] = str(broker.config.connects_with_tls).lower()
        return frame.reply(fields=fields, body=encode_properties_text(properties))

    def update(frame: Frame, session: Session) -> Frame:
        """Change all settings that are named, or none.

        Until the next start only: the configuration file stays as the operator wrote it. A key
        of Apache's that lanemq has no use for is accepted and does nothing, one that nobody
        knows is refused (4.9.8 passes over it in silence).
        """
        nonlocal version
        properties = decode_properties_text(frame.body)
        if not broker.config.blocked_keys.isdisjoint(properties):
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            broker.config.update(properties)
        except ConfigError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        broker.store.config.adopt(broker.config.store_config())
        if "defaultTopicQueueNums" in properties:
            broker.topics.set_default_queues(broker.config.default_topic_queue_nums)
        LOGGER.info("configuration changed by %s: %s", session.peer, properties)
        version = version.next(broker.now_ms())
        configs = broker.store.tables.topics.configs
        if "brokerPermission" in properties:
            announce(list(configs.values()))
        elif "logicalQueuePhysicalTopics" in properties:
            announce([configs[topic] for topic in broker.logical.mappings if topic in configs])
        return frame.reply()

    def announce(topics: list[TopicConfig]) -> None:
        """Announce topics whose routes have changed to the name servers."""
        if topics:
            broker.topics.put(topics[0])  # they look only at a data version that is new
            for topic in topics[1:]:
                broker.announce(topic)

    def cold_reads(frame: Frame, session: Session) -> Frame:
        """Answer that no group is slowed down for reading old messages, as there are no limits."""
        return frame.reply(body=fastjson.dumps(NO_COLD_LIMITS, pretty=True))

    def refuse_cold(frame: Frame, session: Session) -> Frame:
        raise Refused(ResponseCode.SYSTEM_ERROR, NO_COLD_CONTROL)

    handlers.add(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, cold_reads)
    for code in (
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.SET_COMMITLOG_READ_MODE,
    ):
        handlers.add(code, refuse_cold)
    handlers.add(RequestCode.GET_BROKER_CONFIG, get)
    handlers.add(RequestCode.UPDATE_BROKER_CONFIG, update)
