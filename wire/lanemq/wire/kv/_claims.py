"""Claims: the brokers of each namespace, as name servers keep them while a broker is away.

They are entries of the name servers' key-value configuration, one for each namespace and broker,
in the configuration's namespace ``LANEMQ_KV``: the key is ``NAMESPACE@BROKER``, the value JSON.
A broker writes its own, and restores those of absent brokers where a name server has lost them.
"""

from collections.abc import Mapping
from typing import Final, final

import msgspec

from ._names import PARTITION_MARK, PARTITIONS_MAX, identity_problem, namespace_problem

CLAIMS_NAMESPACE: Final = "LANEMQ_KV"
KNOWN_BROKERS_FIELD: Final = "lanemqKnownBrokers"
"""Field of GET_BROKER_CLUSTER_INFO, which asks how many brokers a name server ever knew, and of
the answer, which says it."""
CLAIM_CHARACTERS_MAX: Final = 2048

ClaimKey = tuple[str, str]
"""Namespace and broker."""


@final
class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of one broker in a namespace."""

    identity: str = ""
    """The identity of the namespace; empty for one of an earlier version."""
    partitions: int = 1
    """Number of partitions of the namespace."""
    here: tuple[int, ...] = ()
    """The partitions whose logs are open at the broker, in order."""
    deleted: bool = False
    """True for a namespace that was deleted there; it is kept for a while for other brokers."""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Claim)


def claim_key(namespace: str, broker: str) -> str:
    """Return the key of a claim in the name servers' configuration."""
    return f"{namespace}{PARTITION_MARK}{broker}"


def encode_claim(claim: Claim) -> str:
    """Return the value of a claim in the name servers' configuration."""
    return _ENCODER.encode(claim).decode()


def parse_claims(table: Mapping[str, str]) -> dict[ClaimKey, Claim]:
    """Read claims; entries that are no claims are left out, since anybody may write there."""
    found: dict[ClaimKey, Claim] = {}
    for key, value in table.items():
        namespace, mark, broker = key.partition(PARTITION_MARK)
        if not mark or not broker or namespace_problem(namespace) is not None:
            continue
        claim = _parsed(value)
        if claim is not None:
            found[namespace, broker] = claim
    return found


def _parsed(value: str) -> Claim | None:
    if len(value) > CLAIM_CHARACTERS_MAX:
        return None
    try:
        claim = _DECODER.decode(value)
    except msgspec.MsgspecError:
        return None
    is_sound = 1 <= claim.partitions <= PARTITIONS_MAX and all(
        0 <= partition < claim.partitions for partition in claim.here
    )
    if claim.identity and identity_problem(claim.identity) is not None:
        return None
    return claim if is_sound else None


def rivals(claims: Mapping[ClaimKey, Claim], namespace: str) -> dict[str, list[str]]:
    """Return the identities under which a namespace exists, each with its brokers, by name.

    More than one means that the namespace was created twice. A broker whose namespace has no
    identity yet is one with any other.
    """
    found: dict[str, list[str]] = {}
    for (name, broker), claim in sorted(claims.items()):
        if name == namespace and claim.here and not claim.deleted and claim.identity:
            found.setdefault(claim.identity, []).append(broker)
    return found
