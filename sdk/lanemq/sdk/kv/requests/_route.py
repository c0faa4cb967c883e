"""The brokers of a namespace, as name servers tell it at one moment."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final, final

from lanemq.local import get_logger
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import BrokerData
from lanemq.wire.kv import (
    CLAIMS_NAMESPACE,
    PARTITIONS_MAX,
    Claim,
    ClaimKey,
    kv_topic,
    parse_claims,
    rivals,
)

from ..._errors import NoRoute, RefusedByBroker
from ...admin._client import AdminClient, chosen_address

LOGGER: Final = get_logger("lanemq.sdk.kv")


@final
@dataclass(frozen=True, slots=True)
class Holder:
    """The broker that has a partition."""

    broker: str
    address: str | None
    """The address that it had when it said so."""


@final
@dataclass(frozen=True, slots=True)
class KvRoute:
    """A namespace as name servers know it."""

    brokers: Mapping[str, BrokerData]
    """All brokers that are registered now."""
    holders: Mapping[int, Holder | None] | None
    """The holder of each partition that is listed, None while nobody takes its writes; None for
    all where no logical queues are known."""
    listed: tuple[str, ...]
    """Without logical queues: the brokers that have the topic, by name."""
    claims: Mapping[str, Claim] = field(default_factory=dict)
    """The claims of brokers to the namespace, by name, also of those that are away now."""
    deleted_at: Set[str] = frozenset()
    """The brokers that say that it was deleted there."""

    @property
    def names(self) -> list[str]:
        """The names of the brokers that have something of the namespace."""
        claimed = {name for name, claim in self.claims.items() if claim.here}
        if self.holders is None:
            return sorted({*self.listed, *claimed})
        return sorted({one.broker for one in self.holders.values() if one is not None} | claimed)

    @property
    def is_deleted(self) -> bool:
        """True if brokers say that they had the namespace, and none has it now."""
        return bool(self.deleted_at) and not self.names

    @property
    def partitions(self) -> int:
        """The number of partitions, as far as it can be seen here."""
        claimed = [claim.partitions for claim in self.claims.values() if claim.here]
        return min(max(1, len(self.holders or ()), *claimed), PARTITIONS_MAX)

    @property
    def rivals(self) -> dict[str, list[str]]:
        """The identities under which the namespace exists, with the brokers of each."""
        return rivals({("", name): claim for name, claim in self.claims.items()}, "")

    def claimed(self, partition: int) -> list[str]:
        """Return the brokers that claim a partition."""
        return sorted(name for name, claim in self.claims.items() if partition in claim.here)

    def address_of(self, broker: str) -> str | None:
        """Return the present address of a broker; None where it is not registered."""
        data = self.brokers.get(broker)
        return chosen_address(data) if data is not None else None


async def find_route(admin: AdminClient, namespace: str) -> KvRoute:
    """Ask the name servers where a namespace is."""
    brokers = (await admin.cluster()).broker_addr_table
    claims, deleted_at = await _claims(admin, namespace)
    topic = kv_topic(namespace)
    try:
        queues = await admin.routed_logical_queues(topic)
    except RefusedByBroker as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return KvRoute(brokers, None, (), claims, deleted_at)
    if queues is not None:
        tails = {index: chain.tail for index, chain in queues.items()}
        holders = {
            index: None if tail is None else Holder(tail.broker_name, tail.broker_address)
            for index, tail in tails.items()
        }
        return KvRoute(brokers, holders, (), claims, deleted_at)
    try:
        route = await admin.route(topic)
    except NoRoute:
        return KvRoute(brokers, None, (), claims, deleted_at)
    names = {one.broker_name for one in route.broker_datas}
    listed = tuple(sorted(names - deleted_at))  # name servers of Apache keep what was deleted
    return KvRoute(brokers, None, listed, claims, deleted_at)


async def find_claims(admin: AdminClient) -> dict[ClaimKey, Claim]:
    """Return the claims of brokers to namespaces, as name servers keep them.

    Raises as ``AdminClient.values``; none where the name server keeps no such table.
    """
    try:
        table = await admin.values(CLAIMS_NAMESPACE)
    except RefusedByBroker as error:
        LOGGER.debug("a name server keeps no claims: %s", error)
        return {}
    return parse_claims(table)


async def _claims(admin: AdminClient, namespace: str) -> tuple[dict[str, Claim], set[str]]:
    """Return the claims to a namespace, and the brokers at which it was deleted."""
    found = {
        broker: claim
        for (name, broker), claim in (await find_claims(admin)).items()
        if name == namespace
    }
    deleted_at = {broker for broker, claim in found.items() if claim.deleted}
    return {name: found[name] for name in found.keys() - deleted_at}, deleted_at
