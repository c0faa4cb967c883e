"""Keys and values over topics of the upstream cluster, the same at every proxy.

For the proxy itself there is ``open_upstream_keys``: ``keys.get(name)`` is ``(value, version)`` or
None, as far as this proxy knows; ``await keys.read(name)`` the same with every write that any
proxy has answered. ``await keys.put(name, value, expected=version)`` is the new version, or None
where the entry has another version (0 is for none); ``await keys.delete(name, expected=version)``.
``async for name, entry in keys.watch(prefix)`` gives the entries there are, then their changes,
without an entry for one that is gone. ``keys.statuses()`` says how far each partition is.

For clients there is ``KeyNamespaces``, the namespaces of the cluster, whose ``run`` is a task, and
``KeyRequests`` over it, whose ``run`` is one too: ``add_to(handlers)`` registers the requests at
the port of each broker. At the port for routes ``claims_answer`` answers request 219 where it asks
for ``LANEMQ_KV``, by which clients find namespaces. The topics of logs begin with ``PREFIX``: other
clients need not see them.
"""

from ._keys import CALL_S, SNAPSHOTS, KeysUnavailable, PartitionStatus, UpstreamKeys
from ._known import FILE, KEY_LOGS, LOGS, KnownLog
from ._known_logs import PREFIX, KnownLogs
from ._make_keys import check_births, make_keys, make_upstream_keys, open_upstream_keys
from ._namespaces import KeyNamespaces
from ._partition import MEMORY_BYTES_MAX, kept_bytes
from ._queue import LogQueue, NoAccount, NotYet, Pulled, Stored, TooLong
from ._requests import KeyRequests, claims_answer
from ._topics import BROKER_PERMISSION, may_write
from ._upstream import asks_for_account
from ._watch import KeyChange, KeyEntry, KeyWatch

__all__ = [
    "BROKER_PERMISSION",
    "CALL_S",
    "FILE",
    "KEY_LOGS",
    "LOGS",
    "MEMORY_BYTES_MAX",
    "PREFIX",
    "SNAPSHOTS",
    "KeyChange",
    "KeyEntry",
    "KeyNamespaces",
    "KeyRequests",
    "KeyWatch",
    "KeysUnavailable",
    "KnownLog",
    "KnownLogs",
    "LogQueue",
    "NoAccount",
    "NotYet",
    "PartitionStatus",
    "Pulled",
    "Stored",
    "TooLong",
    "UpstreamKeys",
    "asks_for_account",
    "check_births",
    "claims_answer",
    "kept_bytes",
    "make_keys",
    "make_upstream_keys",
    "may_write",
    "open_upstream_keys",
]
