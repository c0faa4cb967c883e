"""Leases: a time that several keys share, and that is begun again as long as somebody lives.

A lease has a number, chosen by whoever asks for it. Its keys are put with that number in place of a
ttl, and go together when it ends: when its time is over, or when it is revoked. A namespace of
several partitions has it in each of them in which it was granted.
"""

from typing import Annotated, Final, final

import msgspec

from .._errors import RemoteProtocolError
from ._names import LEASE_MAX, TTL_MS_MAX
from ._operations import OpType

OF_LEASES: Final = frozenset({OpType.LEASE, OpType.ALIVE, OpType.REVOKE})


@final
class LeaseTerms(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """The body of an operation about a lease."""

    lease: Annotated[int, msgspec.Meta(ge=1, le=LEASE_MAX)]
    """Its number."""
    ttl_ms: Annotated[int, msgspec.Meta(ge=0, le=TTL_MS_MAX)] = 0
    """Of a grant: the milliseconds that it lasts without being kept alive."""
    of_any: bool = False
    """Whoever it belongs to: that takes the right to all keys of the namespace."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_TERMS: Final = msgspec.msgpack.Decoder(LeaseTerms)


def encode_terms(terms: LeaseTerms) -> bytes:
    """Encode the body of a grant, a keep-alive or a revocation."""
    return _ENCODER.encode(terms)


def decode_terms(op_type: str, body: bytes) -> LeaseTerms:
    """Decode and check the body of an operation about a lease. Raises ``RemoteProtocolError``."""
    try:
        terms = _TERMS.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the body of {op_type} cannot be read: {error}") from error
    if (op_type == OpType.LEASE) != (terms.ttl_ms > 0):
        raise RemoteProtocolError("a grant of a lease has a ttl of 1 ms at least, and no other has")
    if terms.of_any and op_type == OpType.LEASE:
        raise RemoteProtocolError("a lease is granted to whoever asks for it, and to nobody else")
    return terms
