"""Transactions of a store: comparisons, and what is done if they hold or do not."""

from collections.abc import Sequence
from functools import partial

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    Compare,
    Operation,
    OpType,
    Txn,
    TxnAnswer,
    decode_answer,
    decode_txn,
    encode_txn,
)

from ._results import TxnResult
from .requests._calls import KvCalls
from .requests._errors import KvRejected
from .requests._split import common_partition


class KeyTransactions:
    """The transactions of a store."""

    _calls: KvCalls

    async def txn(
        self,
        compares: Sequence[Compare],
        *,
        then: Sequence[Operation] = (),
        otherwise: Sequence[Operation] = (),
    ) -> TxnResult:
        """Do ``then`` if all comparisons hold, else ``otherwise``, in one moment.

        Operations read, put and delete single keys, each in the order given, and an operation
        sees what those before it have done. A list writes a key once at most. Comparisons and
        operations are 1,024 at most, with the entries that they touch of 16 MiB at most.

        Raises ``KvRejected`` for what breaks a limit, for keys in several partitions, and at a
        broker of an earlier version, which has no transactions; and as ``put``.
        """
        txn = Txn(list(compares), list(then), list(otherwise))
        try:
            txn.check_count()  # before the decoder, which would name its own limit of each list
            body = encode_txn(txn)
            decode_txn(body)  # with the types of all fields
        except (RemoteProtocolError, TypeError, OverflowError) as error:
            raise KvRejected(f"this is no transaction: {error}") from error
        chosen = partial(common_partition, list(txn.keys()))
        found = await self._calls.write_raw(chosen, OpType.TXN, body)
        answer = decode_answer(found, TxnAnswer)
        return TxnResult(answer.done, answer.position + 1, answer.results)
