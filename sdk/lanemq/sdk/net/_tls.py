"""TLS on the connections to name servers and brokers.

Source: RocketMQ 4.9.8, TlsHelper, NettyRemotingClient: what ``useTLS`` does.
"""

import ssl

import trio

from ._link import Dial
from ._tls_errors import why_broken


def over_tls(dial: Dial, context: ssl.SSLContext) -> Dial:
    """Return a way to connect by ``dial`` that also shakes hands; what fails is an ``OSError``."""

    async def dial_tls(host: str, port: int) -> trio.abc.Stream:
        plain = await dial(host, port)
        # Brokers end a connection without TLS's close notification; frames show by themselves that
        # they are whole.
        stream = trio.SSLStream(plain, context, server_hostname=host, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(plain)
            if isinstance(error, trio.BrokenResourceError):
                raise ConnectionError(f"no TLS: {why_broken(error)}") from error
            raise
        return stream

    return dial_tls
