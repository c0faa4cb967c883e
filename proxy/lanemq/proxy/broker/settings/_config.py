"""The settings of a broker, under Apache's names.

Every field is the Apache key of the same name in snake case, with Apache's unit and, unless
its text says otherwise, Apache's default.

Source: RocketMQ 4.9.8, BrokerConfig, MessageStoreConfig, NettyServerConfig.
"""

import dataclasses
import re
import socket
from typing import final

from lanemq.wire import (
    INT64,
    INT_MAX,
    LEGAL_NAME,
    TOPIC_QUEUES_MAX,
    VIRTUAL_BROKERS_MAX,
    SystemTopic,
)

from ..._addresses import EVERYWHERE, addresses_in, advertised, check_address
from ..._settings import ConfigError, setting
from ...acl import AccessSettings
from ...net.limits._budget import PEER_MEMORY_MOST, limit_bytes_of
from ...net.limits._limits import Limits
from ...tls import TlsSettings
from ._apache_keys import APACHE_KEYS
from ._store_settings import StoreSettings

LOGICAL_ABOVE = 10
NUMBERED_ABOVE = (1, 4, 5, -4, -3)


def numbered_above(number: int) -> int:
    """Return the distance of a numbered listener's port from the logical listener's.

    Ports come in fours: two VIP ports, and the two main ports that these belong to.
    """
    if number < len(NUMBERED_ABOVE):
        return NUMBERED_ABOVE[number]
    pairs, odd = divmod(number - len(NUMBERED_ABOVE), 2)
    return 8 + 4 * pairs + odd


def _host_name() -> str:
    # The broker's name is a topic name as well, which a dot would spoil.
    return re.sub(r"[^a-zA-Z0-9_-]", "-", socket.gethostname()) or "broker"


@final
@dataclasses.dataclass(kw_only=True, slots=True)
class BrokerConfig(StoreSettings, AccessSettings, TlsSettings):
    """The settings of one broker. Raises ``ConfigError`` for what cannot work."""

    # Identity and addresses
    broker_cluster_name: str = setting("DefaultCluster")
    broker_name: str = dataclasses.field(default_factory=_host_name)
    """Default: the host's name."""
    broker_id: int = setting(0)
    """0, a master. lanemq does not replicate, so there is no other."""
    broker_role: str = setting("ASYNC_MASTER")
    bind_address: str = setting("0.0.0.0")
    """The address to listen on."""
    listen_port: int = setting(10911, most=65535)
    """The main port; the VIP port is two below. 0 takes any free pair."""
    broker_ip1: str | None = setting(None, key="brokerIP1")
    """The address that clients are told. Default: ``bind_address``, or, where that means all
    addresses, the one this machine uses towards the outside."""
    namesrv_addr: str = setting("")
    """Name servers, ``host:port;host:port``; without one the broker registers nowhere."""

    # Registration
    register_name_server_period: int = setting(30_000, least=10_000, most=60_000)
    """Milliseconds between registrations, 10 s to 60 s."""
    register_broker_timeout_mills: int = setting(6000, least=1)
    """Milliseconds to wait for a name server."""
    force_register: bool = setting(True, changeable=True)
    """False asks a name server for its version first, and registers only topics that it does not
    know."""
    compressed_register: bool = setting(False, changeable=True)

    # Topics and groups
    broker_permission: int = setting(6, changeable=True, most=15)
    """The permission of the whole broker: 4 read, 2 write."""
    default_topic_queue_nums: int = setting(8, changeable=True, least=1, most=TOPIC_QUEUES_MAX)
    auto_create_topic_enable: bool = setting(True, changeable=True)
    cluster_topic_enable: bool = setting(True)
    broker_topic_enable: bool = setting(True)
    auto_create_subscription_group: bool = setting(True, changeable=True)
    trace_topic_enable: bool = setting(False)
    msg_trace_topic_name: str = setting(str(SystemTopic.TRACE))
    max_lmq_consume_queue_num: int = setting(20_000, least=1)
    """Light queues of the broker up to which clients create new ones, three quarters of them from
    one address (``enable_lmq``)."""
    notify_consumer_ids_changed_enable: bool = setting(True, changeable=True)

    # Sending and pulling
    start_accept_send_request_time_stamp: int = setting(0, changeable=True, most=INT64[-1])
    """Milliseconds since 1970 before which sends are refused."""
    region_id: str = setting("DefaultRegion")
    trace_on: bool = setting(True)
    """The value of TRACE_ON in send answers."""
    store_reply_message_enable: bool = setting(True, changeable=True)
    """Store replies to requests in the cluster's reply topic, too."""
    long_polling_enable: bool = setting(True, changeable=True)
    short_polling_time_mills: int = setting(1000, changeable=True)
    """Milliseconds a pull is held without long polling."""
    max_transfer_bytes_on_message_in_memory: int = setting(256 << 10, changeable=True, least=1)
    max_transfer_count_on_message_in_memory: int = setting(32, changeable=True, least=1)
    max_transfer_bytes_on_message_in_disk: int = setting(64 << 10, changeable=True, least=1)
    max_transfer_count_on_message_in_disk: int = setting(8, changeable=True, least=1)
    default_query_max_num: int = setting(32, changeable=True)
    """Messages of a query by key that names no limit."""
    use_server_side_reset_offset: bool = setting(True, changeable=True)
    """Reset the offsets of a group without connected members here, as 5.3.3 does. False refuses
    that, as 4.9.8."""
    enable_property_filter: bool = setting(True, changeable=True)
    """Accept subscriptions by SQL92. Apache's default is false."""
    filter_support_retry: bool = setting(False, changeable=True)
    """Let subscriptions by SQL92 filter retries, too."""

    # Transactions
    reject_transaction_message: bool = setting(False, changeable=True)
    """Refuse half messages."""
    transaction_time_out: int = setting(6000, changeable=True)
    """Milliseconds after which a producer is asked about its transaction first."""
    transaction_check_interval: int = setting(30_000, least=1)
    """Milliseconds between rounds of such questions. Default: that of 5.x; 4.9.8 has 60 s."""
    transaction_check_max: int = setting(15, changeable=True, least=1)
    """Questions about one transaction, after which its message is put aside."""

    # Timers
    timer_max_delay_sec: int = setting(3 * 24 * 3600, changeable=True)
    """Seconds that a message with a timer may wait at most."""
    timer_congest_num_each_slot: int = setting(INT_MAX, changeable=True)
    """Timers for one second beyond which more are refused by chance, and twice as many always."""
    recall_message_enable: bool = setting(True, changeable=True)
    """Let clients recall messages that have a timer. Apache's default is false."""
    allow_recall_when_broker_not_writeable: bool = setting(True, changeable=True)

    # Logical queues
    logical_listen_port: int | None = setting(None, least=-1, most=65535)
    """The port where clients that do not know logical queues find them; its VIP port is two
    below. 0 takes any free pair, -1 opens none. Default: ten above ``listen_port``, or any where
    that is any."""
    logical_queue_brokers: int = setting(4, least=1, most=VIRTUAL_BROKERS_MAX)
    """Number of brokers at which clients that do not know logical queues see a topic's. What a
    topic gets with its first logical queues it keeps. Each has a port pair of its own beside
    ``logical_listen_port``: see ``numbered_ports``."""
    forward_timeout: int = setting(3000, changeable=True)
    """Milliseconds to wait for a broker that a message is passed on to."""
    logical_queue_seal_timeout: int = setting(10_000, changeable=True)
    """Milliseconds that sealing a queue may wait for its writers and for the disk."""
    logical_queue_reconcile_interval: int = setting(3000, least=100)
    """Milliseconds between looks at migrations that others should have completed."""
    logical_queue_expired_keep_millis: int = setting(86_400_000, changeable=True, most=INT64[-1])
    """Milliseconds that a segment without messages is kept before it is forgotten."""
    logical_queue_reuse_readable: bool = setting(False, changeable=True)
    """Let tools use a queue again that still has messages, as 5.0.0-PREVIEW's do."""
    logical_queue_physical_topics: str = setting("", changeable=True)
    """Topics, with commas between, that clients which do not know logical queues see as they
    are: the brokers' own queues, from which what cannot stay is passed on."""

    # The server
    server_channel_max_idle_time_seconds: int = setting(120, least=1)
    peer_memory_max: int = setting(0, most=PEER_MEMORY_MOST)
    """Bytes that the process may keep for its peers together: unfinished frames, waiting
    requests, unread answers, tables of clients. Beyond it, the largest peer is closed. At
    least 32 MiB; 0 is an eighth of the machine's memory, from 64 to 256 MiB."""
    config_black_list: str = setting("configBlackList;brokerConfigPath")
    """Keys that UPDATE_BROKER_CONFIG must not touch, joined by ``;``."""

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        return APACHE_KEYS | TlsSettings.other_apache_keys()

    def check(self) -> None:
        TlsSettings.check(self)
        for key, name in (
            ("brokerName", self.broker_name),
            ("brokerClusterName", self.broker_cluster_name),
        ):
            if not LEGAL_NAME.fullmatch(name):
                raise ConfigError(f"{key} is {name!r}: only letters, digits, %, |, _ and - may be")
        if self.broker_id != 0 or self.broker_role != "ASYNC_MASTER":
            raise ConfigError(
                "lanemq does not replicate: brokerId must be 0 and brokerRole ASYNC_MASTER"
            )
        for address in self.name_servers:
            check_address("namesrvAddr", address)
        if self.listen_port in (1, 2):
            raise ConfigError(f"listenPort is {self.listen_port}: it must be 0 or 3 to 65535")
        self.check_access()
        self.check_store()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses in ``namesrv_addr``."""
        return addresses_in(self.namesrv_addr)

    @property
    def listens_everywhere(self) -> bool:
        """True if ``bind_address`` means all addresses of this machine."""
        return self.bind_address in EVERYWHERE

    @property
    def advertised_host(self) -> str:
        """The advertised host (see ``broker_ip1``), as a literal address.

        Raises ``ConfigError`` for a name that has no IPv4 address.
        """
        return advertised(self.broker_ip1, self.bind_address)

    @property
    def blocked_keys(self) -> frozenset[str]:
        """The keys of ``config_black_list``, and those that are always on it."""
        return frozenset(
            {
                "configBlackList",
                "brokerConfigPath",
                "innerClientAuthenticationCredentials",
                "initAuthenticationUser",
                *self.config_black_list.split(";"),
            }
        )

    @property
    def logical_port(self) -> int | None:
        """The value of ``logical_listen_port`` with its default applied; None for no port."""
        if self.logical_listen_port is None:
            return self.listen_port + LOGICAL_ABOVE if self.listen_port else 0
        return None if self.logical_listen_port < 0 else self.logical_listen_port

    @property
    def numbered_ports(self) -> tuple[int, ...]:
        """The ports of the brokers that older clients see, from the first on; none for only one.

        Above and below ``logical_port``, so that up to five find room between two brokers that are
        20 apart.
        """
        port = self.logical_port
        if port is None or self.logical_queue_brokers == 1:
            return ()
        return tuple(
            port and port + numbered_above(number) for number in range(self.logical_queue_brokers)
        )

    @property
    def physical_topics(self) -> frozenset[str]:
        """The topics in ``logical_queue_physical_topics``."""
        names = (name.strip() for name in self.logical_queue_physical_topics.split(","))
        return frozenset(filter(None, names))

    @property
    def peer_memory_bytes(self) -> int:
        """The value of ``peer_memory_max`` with its default applied."""
        return limit_bytes_of(self.peer_memory_max)

    def limits(self) -> Limits:
        """Return the bounds that the broker's server puts on its peers."""
        return Limits(idle_s=float(self.server_channel_max_idle_time_seconds))
