"""Generated from lanemq.sdk.kv._transactions by sdk/tools/generate_faces.py."""

from collections.abc import Sequence

from lanemq.wire.kv import Compare, Operation

from ...kv._results import TxnResult
from ...kv._store import KeyValueStore
from .._bridge import Bridge


class KeyTransactions:
    """The transactions of a store."""

    _core: KeyValueStore
    _bridge: Bridge

    def txn(
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
        return self._bridge.call(self._core.txn, compares, then=then, otherwise=otherwise)
