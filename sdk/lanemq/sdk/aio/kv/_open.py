"""The way into the key-value store."""

import ssl

from lanemq.wire.kv import DEFAULT_NAMESPACE

from ...kv import _open as _core
from ...net._acl import Credentials
from ...net._discovery import NameServersLike
from .._bridge import Opening
from ._store import KeyValueStore


def open_kv_store(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    name_servers: NameServersLike = None,
    broker: str | None = None,
    timeout_s: float = 15.0,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> Opening[KeyValueStore]:
    """Open the store of a namespace; leaving the block closes its connections.

    The namespace is looked for at the broker that has it, by the name servers. One that nobody
    has is made by the first write at ``broker``, by its name, or at the only broker that there
    is. ``name_servers``, ``credentials`` and ``tls`` are as for producers; ``timeout_s`` is how
    long a call is tried. Raises ``KvRejected`` for a bad namespace, and ``ValueError`` where
    there is no name server.
    """
    return Opening(
        KeyValueStore,
        lambda _: _core.open_kv_store(
            namespace=namespace,
            name_servers=name_servers,
            broker=broker,
            timeout_s=timeout_s,
            credentials=credentials,
            tls=tls,
        ),
        serves_others=True,  # as a store of positions, with its leases and locks
    )
