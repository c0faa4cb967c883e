"""The typed result of requests for keys and values."""

from typing import Final, Self, final

from lanemq.storage.kv import KvState, Outcome, Status
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.kv import (
    LEASE_BYTES_MAX,
    LEASE_KEYS_MAX,
    LEASES_MAX,
    NamespaceStatus,
    encode_answer,
    parse_partition,
)

from ...net._answers import Result
from ...net._dispatch import Handlers
from ...net._reply_template import ReplyTemplate
from ._remarks import DELETED, LOST, NO_LEASE

TOO_LARGE: Final = (
    "the entries that the transaction reads or replaces have more than 16 MiB together: nothing "
    "was done; divide it"
)
COMPACTED: Final = (
    "the history before that revision is forgotten already, up to a later one: nothing was done"
)
AHEAD: Final = (
    "the partition has no such revision yet, and all that is to come would be forgotten with its "
    "history: nothing was done; a read's positions are the revisions of its moment"
)
TAKEN: Final = (
    "the client has given the sequence number to another operation before: nothing was done; give "
    "each operation a number of its own"
)


TOO_MANY_KEYS: Final = (
    f"a lease has {LEASE_KEYS_MAX} keys at most in a partition, of {LEASE_BYTES_MAX} bytes "
    "together, and would have more: nothing was done; grant another lease for the others"
)
TOO_MANY_LEASES: Final = (
    f"a partition has {LEASES_MAX} leases at most, of which one account, or one address without "
    "an account, has a fifth: nothing was granted; put more keys under one lease, or revoke some"
)


@final
class KvResult(Result, frozen=True, gc=False):
    """The result of a request: a read's, or that of a write that is applied."""

    body: bytes
    """The answer's body, as clients read it."""

    @classmethod
    def of(cls, answer: object) -> Self:
        """Return the result that tells ``answer``, one of the values of ``lanemq.wire.kv``."""
        return cls(encode_answer(answer))


def status_of(
    state: KvState,
    name: str,
    *,
    partitions: int,
    engine: str,
    broker: str,
    is_open: bool,
    watchers: int,
    end: int,
) -> NamespaceStatus:
    """Return the status of the partition ``name``, whose state a server has.

    ``end`` is the number of records in its log, as far as the server knows.
    """
    namespace, number = parse_partition(name)
    meta = state.meta
    return NamespaceStatus(
        namespace,
        meta.entries,
        meta.entry_bytes,
        meta.next,
        meta.clock_ms,
        state.hash,
        meta.changes_from,
        meta.lost,
        engine,
        number,
        partitions,
        broker,
        is_open,
        meta.identity,
        meta.leases,
        watchers,
        meta.changes,
        max(end, meta.next),
        state.expired,
    )


def add_encoder(handlers: Handlers) -> None:
    """Register the encoder of results at a port."""
    done = ReplyTemplate().encode
    handlers.encode(KvResult, lambda request, result: done(request, (), result.body))


def result_of(name: str, outcome: Outcome) -> KvResult | Refused:
    """Return the answer to the writer of a record of a partition."""
    if outcome.status in (Status.APPLIED, Status.REPEATED):
        return KvResult.of(outcome.answer)
    code, remark = ResponseCode.SYSTEM_ERROR, "the record was not an operation: nothing was done"
    if outcome.status is Status.FORGOTTEN:
        code = ResponseCode.KV_WRITE_FORGOTTEN
        remark = (
            "the write is so old that its result is no longer known: read the key to see "
            "whether it was done"
        )
    elif outcome.status is Status.TAKEN:
        code, remark = ResponseCode.INVALID_PARAMETER, TAKEN
    elif outcome.status is Status.DELETED:
        code = ResponseCode.KV_NAMESPACE_NOT_EXIST
        remark = DELETED.format(parse_partition(name)[0])
    elif outcome.status is Status.TOO_LARGE:
        code, remark = ResponseCode.INVALID_PARAMETER, TOO_LARGE
    elif outcome.status is Status.NO_LEASE:
        code, remark = ResponseCode.KV_LEASE_NOT_EXIST, NO_LEASE
    elif outcome.status is Status.TOO_MANY_KEYS:
        code, remark = ResponseCode.INVALID_PARAMETER, TOO_MANY_KEYS
    elif outcome.status is Status.TOO_MANY_LEASES:
        code, remark = ResponseCode.INVALID_PARAMETER, TOO_MANY_LEASES
    elif outcome.status is Status.COMPACTED:
        code, remark = ResponseCode.KV_COMPACTED, COMPACTED
    elif outcome.status is Status.AHEAD:
        code, remark = ResponseCode.INVALID_PARAMETER, AHEAD
    elif outcome.status is Status.LOST:
        code, remark = ResponseCode.KV_STATE_LOST, LOST.format(parse_partition(name)[0])
    return Refused(code, remark)
