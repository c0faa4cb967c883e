"""The settings of a name server, under Apache's names.

Source: RocketMQ 4.9.8 and 5.3.3, NamesrvConfig, NettyServerConfig.
"""

import dataclasses
from pathlib import Path
from typing import final

from .._settings import setting
from ..net.limits._budget import PEER_MEMORY_MOST, limit_bytes_of
from ..net.limits._limits import Limits
from ..tls import LINK_KEYS, PortTlsSettings

_OTHER_KEYS = frozenset(
    """
    rocketmqHome productEnvName clusterTest configBlackList clientRequestThreadPoolNums
    defaultThreadPoolNums clientRequestThreadPoolQueueCapacity defaultThreadPoolQueueCapacity
    unRegisterBrokerQueueCapacity supportActingMaster enableAllTopicList enableTopicList
    notifyMinBrokerIdChanged enableControllerInNamesrv needWaitForService waitSecondsForService
    deleteTopicWithBrokerRegistration serverWorkerThreads serverCallbackExecutorThreads
    serverSelectorThreads serverOnewaySemaphoreValue serverAsyncSemaphoreValue
    serverSocketSndBufSize serverSocketRcvBufSize writeBufferHighWaterMark
    writeBufferLowWaterMark serverSocketBacklog serverNettyWorkerGroupEnable
    serverPooledByteBufAllocatorEnable enableShutdownGracefully shutdownWaitTimeSeconds
    useEpollNativeSelector
    """.split()  # noqa: SIM905 - as a list it has 30 lines
)

BLOCKED_KEYS = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
"""Keys that UPDATE_NAMESRV_CONFIG refuses."""


@final
@dataclasses.dataclass(kw_only=True, slots=True)
class NameServerConfig(PortTlsSettings):
    """The settings of one name server. Raises ``ConfigError`` for what cannot work."""

    bind_address: str = setting("0.0.0.0")
    """The address to listen on."""
    listen_port: int = setting(9876, most=65535)
    """0 takes any free port."""
    kv_config_path: Path | None = setting(None)
    """Path of the key-value configuration. Default: in memory only."""
    config_store_path: Path | None = setting(None)
    """Path of settings changed by an admin tool. Default: until the process ends."""
    order_message_enable: bool = setting(False, changeable=True)
    """Let routes carry the ORDER_TOPIC_CONFIG of their topic."""
    return_order_topic_config_to_broker: bool = setting(True, changeable=True)
    """Answer registrations with that namespace."""
    scan_not_active_broker_interval: int = setting(5000, changeable=True, least=100)
    """Milliseconds between looks for brokers that have gone silent."""
    serve_logical_queue_to_java: str = setting("all", changeable=True)
    """Topics whose logical queues Java clients are told of: ``all``, ``none``, or their names
    with commas between. Clients of 5.0.0-PREVIEW need a warm-up to understand them."""
    logical_queue_wait_time: int = setting(35_000)
    """Milliseconds from the first report of a topic with logical queues, which the name server did
    not know, until it shows them: so long the other brokers may take to register."""
    server_channel_max_idle_time_seconds: int = setting(120, least=1)
    peer_memory_max: int = setting(0, most=PEER_MEMORY_MOST)
    """Bytes that the process may keep for its peers together: unfinished frames, waiting
    requests, unread answers, tables of clients. Beyond it, the largest peer is closed. At
    least 32 MiB; 0 is an eighth of the machine's memory, from 64 to 256 MiB."""

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        # It connects to nobody.
        return _OTHER_KEYS | LINK_KEYS | PortTlsSettings.other_apache_keys()

    @property
    def peer_memory_bytes(self) -> int:
        """The value of ``peer_memory_max`` with its default applied."""
        return limit_bytes_of(self.peer_memory_max)

    def limits(self) -> Limits:
        """Return the bounds that the name server puts on its peers."""
        return Limits(idle_s=float(self.server_channel_max_idle_time_seconds))
