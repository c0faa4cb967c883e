"""Headers of requests for keys and values, lanemq's own. Keys and prefixes are in base64.

Each names a partition of the namespace, and how many the client takes it to have; a broker that
knows better answers KV_MOVED (``lanemq.wire.kv.Moved``).
"""

from typing import final

from .._numbers import Long
from ._header import Header


@final
class KvWrite(Header, frozen=True):
    """KV_WRITE 310421; the body has the steps as msgpack (``lanemq.wire.kv``).

    With ``client`` the write may be repeated: ``sequence`` is its number among the client's
    writes, from 1, and ``waits`` the lowest one whose answer the client still waits for.

    A namespace is made where a write says so: ``create_at`` is the name of the broker that is to
    have it, or ``*`` for one that has never had another broker beside it. Of one with several
    partitions each is made by a write of its own.
    """

    op_type: str
    namespace: str = "default"
    client: str | None = None
    sequence: Long | None = None
    waits: Long | None = None
    create_at: str | None = None
    partition: Long = 0
    partitions: Long = 1


@final
class KvGet(Header, frozen=True):
    """KV_GET 310422."""

    key: str
    namespace: str = "default"
    consistency: str = "linearizable"
    partition: Long = 0
    partitions: Long = 1


@final
class KvMultiGet(Header, frozen=True):
    """KV_MULTI_GET 310423; the body has the keys as a msgpack array."""

    namespace: str = "default"
    consistency: str = "linearizable"
    partition: Long = 0
    partitions: Long = 1


@final
class KvScan(Header, frozen=True):
    """KV_SCAN 310424; ``cursor`` is that of the page before.

    ``snapshot`` is ``new`` for a page whose moment is kept for the pages that follow, which
    say what that page answered.
    """

    prefix: str = ""
    namespace: str = "default"
    cursor: str | None = None
    limit: Long = 1000
    keys_only: bool = False
    snapshot: str | None = None
    partition: Long = 0
    partitions: Long = 1


@final
class KvWatch(Header, frozen=True):
    """KV_WATCH 310425: changes from a position on; it waits up to ``wait_millis`` for one.

    With the ``identity`` of an earlier answer they are those of that namespace, and of no later
    one of its name: KV_COMPACTED says so. Earlier brokers do not look at it.
    """

    position: Long
    index: Long = 0
    prefix: str = ""
    namespace: str = "default"
    limit: Long = 1000
    wait_millis: Long = 0
    partition: Long = 0
    partitions: Long = 1
    identity: str | None = None


@final
class KvRange(Header, frozen=True):
    """KV_RANGE 310428: the keys from ``begin`` up to, but without, ``end``; without, all others.

    The next page has the cursor of this one as ``begin``, or with ``reverse`` as ``end``. At a
    ``revision`` it has the entries of then, and that number counts the records that are in it.
    """

    begin: str = ""
    end: str | None = None
    namespace: str = "default"
    limit: Long = 1000
    reverse: bool = False
    keys_only: bool = False
    count_only: bool = False
    revision: Long | None = None
    partition: Long = 0
    partitions: Long = 1


@final
class KvFollow(Header, frozen=True):
    """KV_FOLLOW 310429: changes as KV_WATCH has them, of the keys from ``begin`` up to ``end``.

    With ``previous`` each has the entry that was there before it. ``identity`` is as there.
    """

    position: Long
    begin: str = ""
    end: str | None = None
    index: Long = 0
    namespace: str = "default"
    limit: Long = 1000
    wait_millis: Long = 0
    previous: bool = False
    partition: Long = 0
    partitions: Long = 1
    identity: str | None = None


@final
class KvLeases(Header, frozen=True):
    """KV_LEASES 310430: one lease with its keys, or leases in the order of their numbers, from
    ``first`` on; those of the account that asks.

    ``of_any`` has those of all others, too: that takes the right to all keys of the namespace.
    """

    namespace: str = "default"
    lease: Long | None = None
    first: Long = 0
    limit: Long = 1000
    of_any: bool = False
    partition: Long = 0
    partitions: Long = 1


@final
class KvStatus(Header, frozen=True):
    """KV_STATUS 310426: of what the broker has of a namespace, or of all namespaces.

    With ``partition`` of that one, wherever it is: a broker that does not have it says who has.
    """

    namespace: str | None = None
    partition: Long | None = None
    partitions: Long = 1


@final
class KvState(Header, frozen=True):
    """KV_STATE 310427: rows of a partition that is closed here, from ``cursor`` (in base64) on.

    ``position`` is where the log goes on elsewhere: rows of another state are refused.
    """

    namespace: str
    partition: Long
    position: Long
    cursor: str | None = None
