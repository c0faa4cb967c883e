"""Operations of writes, in the form of their requests, which is that in the log.

Every write is a list of steps, each about one key. All conditions are judged before any step is
done, and one that does not hold keeps all steps from being done. A put, a delete and a
compare-and-set have one step, a batch has several.
"""

import base64
import binascii
import enum
from collections.abc import Sequence
from typing import Annotated, Final, final

import msgspec

from .._errors import RemoteProtocolError
from .._numbers import LONG_MAX
from ._lists import list_count
from ._names import (
    KEY_BYTES_MAX,
    LEASE_MAX,
    OPERATION_BYTES_MAX,
    PARTITIONS_MAX,
    STEPS_MAX,
    TTL_MS_MAX,
    VALUE_BYTES_MAX,
    identity_problem,
)


@final
class OpType:
    """The kinds of operations; values of the property ``kv_opType``."""

    PUT: Final = "put"
    DELETE: Final = "delete"
    CAS: Final = "cas"
    BATCH: Final = "batch"
    CLEAR: Final = "clear"
    """Empties the namespace; a namespace whose state was lost is usable from then on."""
    LOAD: Final = "load"
    """Entries of a snapshot, taken over as they are."""
    CREATE: Final = "create"
    """Asked for only: makes the namespace if it is missing. The record is a tick."""
    TICK: Final = "tick"
    """Nothing but the time of the record: entries expire by it."""
    BEGIN: Final = "begin"
    """The first record of a partition at a broker, which says what follows (``Beginning``)."""
    DROP: Final = "drop"
    """Deletes the namespace; the body is its identity in UTF-8. Nothing follows."""
    IMPORT: Final = "import"
    """Empties the partition for a snapshot; no read is answered until ``IMPORTED``."""
    IMPORTED: Final = "imported"
    """All entries of the snapshot are there."""
    COMPACT: Final = "compact"
    """Forgets the changes before a revision, so that earlier ones cannot be read; the body is
    that revision as msgpack."""
    TXN: Final = "txn"
    """Comparisons, and what is done if they hold or do not; see ``_txn``."""
    LEASE: Final = "lease"
    """Grants a lease; see ``_leases`` for the body of this and the next two."""
    ALIVE: Final = "alive"
    """Lets the whole time of a lease begin again."""
    REVOKE: Final = "revoke"
    """Ends a lease; its keys are deleted."""


ONE_STEP: Final = frozenset({OpType.PUT, OpType.DELETE, OpType.CAS})
WITHOUT_BODY: Final = frozenset(
    {OpType.CLEAR, OpType.CREATE, OpType.TICK, OpType.IMPORT, OpType.IMPORTED}
)


@final
class Action(enum.IntEnum):
    """The action of a step when all conditions hold."""

    PUT = 0
    DELETE = 1
    CHECK = 2
    """Nothing: the step is a condition only."""


@final
class Step(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A part of an operation, about one key."""

    # Further fields are an error here, and in all bodies of records. How deep lists in lists can be
    # passed over depends on a process's stack: replicas would not agree on a record.

    key: bytes
    action: Action
    value: bytes = b""
    ttl_ms: int = 0
    """Life of the entry in milliseconds, by the log's times; 0 is forever. A negative one is the
    number of a lease, without its sign: the entry is there as long as that. (A broker without
    leases refuses it, where it would pass over a field of its own.)"""
    if_version: int | None = None
    """Condition: the entry has this version; 0 is that there is none."""
    if_value: bytes | None = None
    """Condition: the entry has this value."""

    @property
    def lease(self) -> int:
        """The lease that a put is under; 0 for none."""
        return max(0, -self.ttl_ms)


_Key = Annotated[bytes, msgspec.Meta(min_length=1, max_length=KEY_BYTES_MAX)]
_Value = Annotated[bytes, msgspec.Meta(max_length=VALUE_BYTES_MAX)]
_Version = Annotated[int, msgspec.Meta(ge=1, le=LONG_MAX)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=LONG_MAX)]


@final
class LoadedEntry(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """An entry of a snapshot. Times are milliseconds since 1970; ``expires_ms`` 0 is never."""

    # Checked by the decoder: there are millions, and each is decoded four times on its way.
    key: _Key
    value: _Value
    version: _Version
    create_time_ms: _Time
    update_time_ms: _Time
    expires_ms: _Time = 0


@final
class Beginning(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The body of a ``begin``: whose records follow in the queue."""

    partition: int
    partitions: int
    """Number of partitions of the namespace."""
    position: int
    """Number of this record in the log of the partition."""


_PUT: Final = Action.PUT  # an attribute of an enum takes as long as a small function
_ENCODER: Final = msgspec.msgpack.Encoder()
_STEPS: Final = msgspec.msgpack.Decoder(list[Step])
_ENTRIES: Final = msgspec.msgpack.Decoder(list[LoadedEntry])
_REVISION: Final = msgspec.msgpack.Decoder(Annotated[int, msgspec.Meta(ge=0, le=LONG_MAX)])
_BEGINNING: Final = msgspec.msgpack.Decoder(Beginning)


def encode_steps(steps: Sequence[Step]) -> bytes:
    """Encode the body of a put, delete, compare-and-set or batch."""
    return _ENCODER.encode(steps)


def encode_load(entries: Sequence[LoadedEntry]) -> bytes:
    """Encode the body of a load."""
    return _ENCODER.encode(entries)


def encode_beginning(beginning: Beginning) -> bytes:
    """Encode the body of a begin."""
    return _ENCODER.encode(beginning)


def decode_beginning(body: bytes) -> Beginning:
    """Decode and check the body of a begin. Raises ``RemoteProtocolError``."""
    try:
        found = _BEGINNING.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the body of begin cannot be read: {error}") from error
    if not (0 <= found.partition < found.partitions <= PARTITIONS_MAX and found.position >= 0):
        raise RemoteProtocolError(f"a begin of partition {found.partition} of {found.partitions}")
    return found


def encode_compact(revision: int) -> bytes:
    """Encode the body of a compact."""
    return _ENCODER.encode(revision)


def decode_compact(body: bytes) -> int:
    """Decode and check the body of a compact. Raises ``RemoteProtocolError``."""
    try:
        revision: int = _REVISION.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the body of compact cannot be read: {error}") from error
    return revision


def encode_drop(identity: str) -> bytes:
    """Encode the body of a drop."""
    return identity.encode()


def decode_drop(body: bytes) -> str:
    """Decode and check the body of a drop: an identity. Raises ``RemoteProtocolError``."""
    identity = body.decode("ascii", "replace")
    if identity and identity_problem(identity) is not None:
        raise RemoteProtocolError("the body of drop is not the identity of a namespace")
    return identity


def decode_steps(op_type: str, body: bytes) -> list[Step]:
    """Decode and check steps; none for an operation without. Raises ``RemoteProtocolError``."""
    if op_type in WITHOUT_BODY:
        if body:
            raise RemoteProtocolError(f"the operation {op_type} has a body, and needs none")
        return []
    if op_type not in ONE_STEP and op_type != OpType.BATCH:
        raise RemoteProtocolError(f"there is no operation {op_type!r} with steps")
    _check_size(body)
    if op_type in ONE_STEP:
        if list_count(body) > 1:
            raise RemoteProtocolError(f"the operation {op_type} has more than one step")
    elif list_count(body) > STEPS_MAX:
        raise RemoteProtocolError(f"a batch has 1 to {STEPS_MAX} steps, not {list_count(body)}")
    try:
        steps = _STEPS.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the body of {op_type} cannot be read: {error}") from error
    if not steps:
        raise RemoteProtocolError(f"the operation {op_type} has no steps")
    for step in steps:
        check_step(step)
    if len(steps) > 1 and len({step.key for step in steps}) < len(steps):
        raise RemoteProtocolError("a batch has a key twice")
    return steps


def plain_put(body: bytes) -> Step | None:
    """Decode the body of a put without condition or ttl; None for any other, allowed or not."""
    if len(body) > OPERATION_BYTES_MAX or list_count(body) != 1:
        return None
    try:
        steps = _STEPS.decode(body)
    except msgspec.MsgspecError:
        return None
    step = steps[0]
    is_plain = (
        step.action is _PUT
        and step.if_version is None
        and step.if_value is None
        and step.ttl_ms == 0
        and 0 < len(step.key) <= KEY_BYTES_MAX
        and len(step.value) <= VALUE_BYTES_MAX
    )
    return step if is_plain else None


def decode_load(body: bytes, *, most: int | None = None) -> list[LoadedEntry]:
    """Decode and check the entries of a load, ``most`` or less. Raises ``RemoteProtocolError``."""
    _check_size(body)
    if most is not None and (count := list_count(body)) > most:
        raise RemoteProtocolError(f"a load has {most} entries at most, not {count}")
    try:
        return _ENTRIES.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the body of load cannot be read: {error}") from error


def check_step(step: Step) -> None:
    """Check the limits of a step. Raises ``RemoteProtocolError``."""
    if (
        0 < len(step.key) <= KEY_BYTES_MAX
        and len(step.value) <= VALUE_BYTES_MAX
        and step.if_version is None
        and step.ttl_ms == 0
    ):
        return  # nearly all of them, and every record of a redo
    check_key(step.key)
    _check_value(step.value)
    if not -LEASE_MAX <= step.ttl_ms <= TTL_MS_MAX:
        raise RemoteProtocolError(
            f"a ttl of {step.ttl_ms} ms, it has to be 0 (forever) to {TTL_MS_MAX} (ten years), or "
            f"the negative of a lease's number, which is {LEASE_MAX} at most"
        )
    if step.if_version is not None and not 0 <= step.if_version < 1 << 63:
        raise RemoteProtocolError(f"no entry can have version {step.if_version}")


def check_key(key: bytes) -> None:
    """Check a key. Raises ``RemoteProtocolError``."""
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise RemoteProtocolError(f"a key of {len(key)} bytes, it has to have 1 to {KEY_BYTES_MAX}")


def _check_value(value: bytes) -> None:
    if len(value) > VALUE_BYTES_MAX:
        raise RemoteProtocolError(
            f"a value of {len(value)} bytes, at most {VALUE_BYTES_MAX} are taken"
        )


def _check_size(body: bytes) -> None:
    if len(body) > OPERATION_BYTES_MAX:
        raise RemoteProtocolError(
            f"an operation of {len(body)} bytes, at most {OPERATION_BYTES_MAX} are taken"
        )


def encode_key(key: bytes) -> str:
    """Write bytes for a header or a property: standard base64."""
    return base64.b64encode(key).decode()


def decode_key(text: str, what: str = "key") -> bytes:
    """Read ``encode_key``. Raises ``RemoteProtocolError`` naming ``what`` is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"the {what} is not standard base64: {error}") from error
