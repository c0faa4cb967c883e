"""The checks of a request before anything is kept of it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from lanemq.wire import Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import (
    LOAD_ENTRIES_MAX,
    OF_LEASES,
    ONE_STEP,
    PARTITIONS_MAX,
    SEQUENCE_MAX,
    Action,
    OpType,
    Step,
    client_problem,
    decode_compact,
    decode_drop,
    decode_key,
    decode_load,
    decode_steps,
    decode_terms,
    decode_txn,
    lessor_of,
    namespace_problem,
)

CLIENT_OPERATIONS: Final = frozenset(
    {
        *ONE_STEP,
        *OF_LEASES,
        OpType.BATCH,
        OpType.CLEAR,
        OpType.CREATE,
        OpType.DROP,
        OpType.LOAD,
        OpType.IMPORT,
        OpType.IMPORTED,
        OpType.TXN,
        OpType.COMPACT,
    }
)
SHRINKING: Final = frozenset(
    {
        OpType.DELETE,
        OpType.CLEAR,
        OpType.IMPORT,
        OpType.IMPORTED,
        OpType.DROP,
        OpType.ALIVE,
        OpType.REVOKE,
        OpType.COMPACT,
    }
)
"""The operations that are taken where memory is full: no entry follows from them."""
_ACTIONS: Final = {
    OpType.PUT: (Action.PUT,),
    OpType.DELETE: (Action.DELETE,),
    OpType.CAS: (Action.PUT, Action.DELETE),
}
"""The actions of operations with one step; a batch has all."""
DURING_IMPORT: Final = frozenset(
    {OpType.LOAD, OpType.IMPORT, OpType.IMPORTED, OpType.CLEAR, OpType.CREATE, OpType.DROP}
)


class Checked(NamedTuple):
    """A write that was checked."""

    key: bytes | None
    """Its key, if it is about one."""
    of_lease: bool
    """True if it is about leases, or puts entries under one."""

    def lessor(self, account: str, host: str) -> str:
        """Return who asks, where the record has to name it; else an empty text."""
        return lessor_of(account, host) if self.of_lease else ""


def checked_write(header: KvWrite, body: bytes) -> Checked:
    """Check a write. Raises ``Refused``."""
    problem = namespace_problem(header.namespace)
    if problem is None and header.op_type not in CLIENT_OPERATIONS:
        problem = f"there is no operation {header.op_type!r}"
    if problem is None and header.client is not None:
        problem = client_problem(header.client)
        numbers = header.sequence, header.waits
        if problem is None and not all(
            number is not None and 0 < number <= SEQUENCE_MAX for number in numbers
        ):
            problem = (
                "a write with a client needs its numbers sequence and waits, from 1 to "
                f"{SEQUENCE_MAX}"
            )
    if problem is not None:
        raise Refused(ResponseCode.INVALID_PARAMETER, problem)
    check_place(header.partition, header.partitions)
    try:
        return _checked_body(header.op_type, body)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _checked_body(op_type: str, body: bytes) -> Checked:
    if op_type == OpType.LOAD:
        decode_load(body, most=LOAD_ENTRIES_MAX)
        return Checked(None, of_lease=False)
    if op_type in OF_LEASES:
        decode_terms(op_type, body)
        return Checked(None, of_lease=True)
    if op_type == OpType.DROP:
        decode_drop(body)
        return Checked(None, of_lease=False)
    if op_type == OpType.COMPACT:
        decode_compact(body)
        return Checked(None, of_lease=False)
    is_txn = op_type == OpType.TXN
    steps = decode_txn(body).steps if is_txn else decode_steps(op_type, body)
    _check_actions(op_type, steps)
    key = steps[0].key if op_type in ONE_STEP else None
    return Checked(key, any(step.ttl_ms < 0 for step in steps))


def _check_actions(op_type: str, steps: Iterable[Step]) -> None:
    """Check what decoders of the log cannot, since older records have it. Raises ``Refused``."""
    allowed = _ACTIONS.get(op_type)
    for step in steps:
        if allowed is not None and step.action not in allowed:
            remark = f"the operation {op_type} has no step {step.action.name}"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        if step.action is Action.CHECK and step.value:
            remark = "a step or operation that only compares or reads has no value"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)


def check_place(partition: int, partitions: int) -> None:
    """Raise ``Refused`` (INVALID_PARAMETER) for a partition that no namespace can have."""
    if not 0 <= partition < partitions <= PARTITIONS_MAX:
        remark = (
            f"there is no partition {partition} of {partitions}: a namespace has 1 to "
            f"{PARTITIONS_MAX}, counted from 0"
        )
        raise Refused(ResponseCode.INVALID_PARAMETER, remark)


def decoded_key(text: str, what: str) -> bytes:
    """Read bytes of a header. Raises ``Refused`` (INVALID_PARAMETER)."""
    try:
        return decode_key(text, what)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
