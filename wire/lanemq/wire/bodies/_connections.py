"""Bodies that list a broker's connected producers and consumers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ._body import Body
from ._heartbeat import SubscriptionData


@dataclass(frozen=True, slots=True)
class ClientConnection(Body):
    """One connection. ``language`` is a name and ``version`` a number that tools know.

    Source: RocketMQ 4.9.8, protocol.body.Connection.
    """

    client_id: str
    client_addr: str
    language: str | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerConnection(Body):
    """The clients and subscriptions of a group (request 203).

    The last three are values of ``ConsumeType``, ``MessageModel`` and ``ConsumeFromWhere``.
    Source: RocketMQ 4.9.8, ConsumerConnection.
    """

    connection_set: tuple[ClientConnection, ...] = ()
    subscription_table: Mapping[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerConnection(Body):
    """The clients of a producer group (request 204). Source: ProducerConnection."""

    connection_set: tuple[ClientConnection, ...] = ()


@dataclass(frozen=True, slots=True)
class ProducerInfo(Body):
    """One producer; the time in milliseconds since 1970. Source: RocketMQ 4.9.8, ProducerInfo."""

    NAMES: ClassVar = {"remote_ip": "remoteIP"}

    client_id: str
    remote_ip: str
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


@dataclass(frozen=True, slots=True)
class ProducerTable(Body):
    """All producers by group (request 328). Source: RocketMQ 4.9.8, ProducerTableInfo."""

    data: Mapping[str, tuple[ProducerInfo, ...]] = field(default_factory=dict)
