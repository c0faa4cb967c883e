"""The checks of a request before anything is kept of it."""

from typing import Final

from lanemq.wire import Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import (
    ONE_STEP,
    PARTITIONS_MAX,
    OpType,
    client_problem,
    decode_key,
    decode_load,
    decode_steps,
    namespace_problem,
)

CLIENT_OPERATIONS: Final = frozenset(
    {*ONE_STEP, OpType.BATCH, OpType.CLEAR, OpType.CREATE, OpType.LOAD}
)


def checked_key(header: KvWrite, body: bytes) -> bytes | None:
    """Check a write; returns its key if it is about one. Raises ``Refused``."""
    problem = namespace_problem(header.namespace)
    if problem is None and header.op_type not in CLIENT_OPERATIONS:
        problem = f"there is no operation {header.op_type!r}"
    if problem is None and header.client is not None:
        problem = client_problem(header.client)
        numbers = header.sequence, header.waits
        if problem is None and not all(number is not None and number > 0 for number in numbers):
            problem = "a write with a client needs its numbers sequence and waits, from 1"
    if problem is None and not 0 <= header.partition < header.partitions <= PARTITIONS_MAX:
        problem = (
            f"there is no partition {header.partition} of {header.partitions}: a namespace has 1 "
            f"to {PARTITIONS_MAX}, counted from 0"
        )
    if problem is not None:
        raise Refused(ResponseCode.INVALID_PARAMETER, problem)
    try:
        if header.op_type == OpType.LOAD:
            decode_load(body)
            return None
        steps = decode_steps(header.op_type, body)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
    return steps[0].key if header.op_type in ONE_STEP else None


def decoded_key(text: str, what: str) -> bytes:
    """Read bytes of a header. Raises ``Refused`` (INVALID_PARAMETER)."""
    try:
        return decode_key(text, what)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
