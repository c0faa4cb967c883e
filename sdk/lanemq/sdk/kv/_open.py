"""Opening of a store of keys and values."""

import os
import ssl
from collections.abc import AsyncIterator

from lanemq.wire.kv import DEFAULT_NAMESPACE, namespace_problem

from .._errors import check_in_trio
from .._tasks import open_quiet_nursery
from .._values import check_seconds, check_text
from ..net._acl import Credentials
from ..net._discovery import NameServersLike, ask_name_servers
from ..net._link import Dial
from ..net._remoting import dial_tcp, open_remoting_client
from ..opening._unopened import opener
from ..opening._url import connect_without_group
from ._store import KeyValueStore
from .requests._calls import KvCalls
from .requests._errors import KvRejected


@opener
async def open_kv_store(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    name_servers: NameServersLike = None,
    broker: str | None = None,
    timeout_s: float = 15.0,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    dial: Dial = dial_tcp,
) -> AsyncIterator[KeyValueStore]:
    """Open the store of a namespace; leaving the block closes its connections.

    The namespace is looked for at the brokers that have it, by the name servers. One that nobody
    has is made by the first write at ``broker``, by its name; see ``KeyValueStore.create`` for
    where it is made without, and for partitions. One that is elsewhere raises ``NoNamespace``.
    ``name_servers``, ``credentials`` and ``tls`` are as for producers; of a connection string
    hosts, account and TLS count;
    ``timeout_s`` is how long a call is tried; one attempt is always made. Raises
    ``KvRejected`` for a bad namespace, and ``ValueError`` where there is no name server.
    """
    check_in_trio()
    check_seconds("timeout_s", timeout_s, zero=True, error=KvRejected)
    check_text("the name of a namespace", namespace, error=KvRejected)
    problem = namespace_problem(namespace)
    if problem is not None:
        raise KvRejected(problem)
    name_servers, credentials, tls = connect_without_group(name_servers, credentials, tls)
    found = await ask_name_servers(name_servers, dial)
    async with (
        open_remoting_client(credentials=credentials, tls=tls, dial=dial) as client,
        open_quiet_nursery() as nursery,
    ):
        calls = KvCalls(
            client,
            found,
            namespace=namespace,
            broker=broker,
            client_id=os.urandom(12).hex(),
            timeout_s=timeout_s,
        )
        try:
            yield KeyValueStore(calls, nursery)
        finally:
            nursery.cancel_scope.cancel()
