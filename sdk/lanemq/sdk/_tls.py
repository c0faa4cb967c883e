"""TLS on the connections to name servers and brokers.

Source: RocketMQ 4.9.8, TlsHelper, NettyRemotingClient: what ``useTLS`` does.
"""

import ssl

import trio

from ._link import Dial


def over_tls(dial: Dial, context: ssl.SSLContext) -> Dial:
    """A way to connect that also shakes hands. It raises ``OSError`` where that fails."""

    async def dial_tls(host: str, port: int) -> trio.abc.Stream:
        plain = await dial(host, port)
        # Brokers end a connection without TLS's own farewell; frames say themselves whether
        # they are whole.
        stream = trio.SSLStream(plain, context, server_hostname=host, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(plain)
            if isinstance(error, trio.BrokenResourceError):
                raise ConnectionError(f"no TLS: {error.__cause__ or error}") from error
            raise
        return stream

    return dial_tls
