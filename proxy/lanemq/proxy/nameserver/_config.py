"""What a name server can be told, under Apache's names.

Source: RocketMQ 4.9.8 and 5.3.3, NamesrvConfig, NettyServerConfig.
"""

import dataclasses
from pathlib import Path
from typing import final

from .._limits import Limits
from .._settings import ConfigError, Settings, setting

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
class NameServerConfig(Settings):
    """The settings of one name server. Raises ``ConfigError`` for what cannot work."""

    bind_address: str = setting("0.0.0.0")
    """The address to listen on."""
    listen_port: int = setting(9876)
    """0 takes any free port."""
    kv_config_path: Path | None = setting(None)  # noqa: RUF009 - a field
    """Where the key-value configuration is kept. Default: in memory only."""
    config_store_path: Path | None = setting(None)  # noqa: RUF009 - a field
    """Where settings changed by an admin tool are kept. Default: until the process ends."""
    order_message_enable: bool = setting(False, changeable=True)
    """Whether routes carry the ORDER_TOPIC_CONFIG of their topic."""
    return_order_topic_config_to_broker: bool = setting(True, changeable=True)
    """Whether registrations are answered with that namespace."""
    scan_not_active_broker_interval: int = setting(5000, changeable=True)
    """Milliseconds between looks for brokers that have gone silent."""
    serve_logical_queue_to_java: str = setting("all", changeable=True)
    """Topics whose logical queues Java clients are told of: ``all``, ``none``, or their names
    with commas between. Clients of 5.0.0-PREVIEW need a warm-up to understand them."""
    logical_queue_wait_time: int = setting(35_000)
    """Milliseconds from when a name server that has just started first hears of a topic with
    logical queues until it shows them: so long a broker may take to register."""
    server_channel_max_idle_time_seconds: int = setting(120)

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        return _OTHER_KEYS

    def check(self) -> None:
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: it must be 0 to 65535")
        if self.scan_not_active_broker_interval < 100:
            raise ConfigError("scanNotActiveBrokerInterval must be at least 100 (milliseconds)")
        if self.logical_queue_wait_time < 0:
            raise ConfigError("logicalQueueWaitTime must be 0 or more (milliseconds)")

    def limits(self) -> Limits:
        """The bounds that the name server puts on its peers."""
        return Limits(idle_s=float(self.server_channel_max_idle_time_seconds))
