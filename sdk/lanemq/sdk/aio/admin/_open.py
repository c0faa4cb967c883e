"""The way into the administrator's client."""

import ssl

from ...admin import _client as _core
from ...net._acl import Credentials
from ...net._discovery import NameServersLike
from .._bridge import Opening
from ._client import AdminClient


def open_admin(
    *,
    name_servers: NameServersLike = None,
    timeout_s: float = 5.0,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> Opening[AdminClient]:
    """Open an administrator's client; leaving the block closes its connections.

    ``name_servers``, ``credentials`` and ``tls`` are as for producers and consumers;
    ``timeout_s`` bounds each request. Raises ``ValueError`` where there is no name server, and
    ``LanemqError`` from an HTTP endpoint that does not say where they are.
    """
    return Opening(
        AdminClient,
        lambda _: _core.open_admin(
            name_servers=name_servers, timeout_s=timeout_s, credentials=credentials, tls=tls
        ),
    )
