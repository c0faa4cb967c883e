"""Reading and changing the configuration of a running broker.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.getBrokerConfig, updateBrokerConfig.
"""

import logging

from lanemq.wire import Refused, RequestCode, ResponseCode, decode_properties_text
from lanemq.wire.bodies import DataVersion, TopicConfig
from lanemq.wire.frame import Frame

from ..._settings import ConfigError
from ...net._dispatch import Handlers
from ...net._session import Session
from ..context._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.admin")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register GET_BROKER_CONFIG (26) and UPDATE_BROKER_CONFIG (25)."""
    version = DataVersion(broker.now_ms())

    def get(frame: Frame, session: Session) -> Frame:
        """Answer ``key=value`` lines, and in ``version`` the number of their changes."""
        fields = {"version": version.encode().decode()}
        return frame.reply(fields=fields, body=broker.config.to_text())

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

    handlers.add(RequestCode.GET_BROKER_CONFIG, get)
    handlers.add(RequestCode.UPDATE_BROKER_CONFIG, update)
