"""The namespaces of a cluster, as name servers remember them."""

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import final

from lanemq.wire.kv import Claim

from ..._errors import BrokerUnreachable, NoRoute, RequestTimedOut
from ._calls import KvCalls
from ._route import find_claims


@final
@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace, and the brokers that name servers remember to have it."""

    namespace: str
    identity: str
    """The identity that was made at its creation; empty for one of an earlier version that has
    none yet. Two namespaces of one name have two."""
    partitions: int
    """Number of partitions."""
    brokers: tuple[str, ...]
    """The brokers that are registered now."""
    away: tuple[str, ...]
    """The brokers that are not."""


async def find_namespaces(calls: KvCalls) -> list[NamespaceInfo]:
    """Return all namespaces; see ``KeyValueStore.namespaces``."""
    attempts, admin = calls.attempts(), calls.holders.admin
    while True:
        try:
            claims = await attempts.look_up(partial(find_claims, admin))
            present = (await attempts.look_up(admin.cluster)).broker_addr_table
        except (BrokerUnreachable, NoRoute, RequestTimedOut) as error:
            await attempts.pause(error)
        else:
            break
    grouped = defaultdict[tuple[str, str], dict[str, Claim]](dict)
    for (namespace, broker), claim in sorted(claims.items()):
        if claim.here and not claim.deleted:
            grouped[namespace, claim.identity][broker] = claim
    return [
        NamespaceInfo(
            namespace=namespace,
            identity=identity,
            partitions=max(claim.partitions for claim in found.values()),
            brokers=tuple(name for name in found if name in present),
            away=tuple(name for name in found if name not in present),
        )
        for (namespace, identity), found in sorted(grouped.items())
    ]
