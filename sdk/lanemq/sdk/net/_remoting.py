"""The remoting client: one connection per server, opened when first needed.

Reproduces NettyRemotingClient, without its thread pools: a call is a coroutine, and requests
that the server sends run in the nursery of their connection.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import final

import trio

from lanemq.wire import Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.requests import AnswerSize, longest_answer

from .._errors import (
    BadAnswer,
    ClientClosed,
    InvalidName,
    RefusedByBroker,
    WrongValue,
    request_name,
)
from .._tasks import open_quiet_nursery
from .._values import check_fields
from ..observe._log import get_logger
from ._acl import Credentials, sign
from ._link import Dial, Link
from ._outbox import encoded
from ._served import LOGGER as REQUESTS
from ._tls import over_tls

LOGGER = get_logger("lanemq.sdk.remoting")

Handler = Callable[[Frame, str], "Frame | Awaitable[Frame | None] | None"]
"""Answers a request of the server: (request, server's address) -> reply, or None.

A plain function runs at once and must not block; what is awaited runs in a task of its own.
``lanemq.wire.Refused`` raised by it becomes the reply. One-way requests are never answered.
"""

SUCCESS_ONLY: Container[int] = frozenset({0})
QUICK_BYTES = AnswerSize.ONE.value  # any answer may be so long: few have to be looked up
CLOSE_GRACE_S = 1.0  # for what was posted and not yet written when the client closes


@dataclass(frozen=True, kw_only=True, slots=True)
class RemotingOptions:
    """Limits of the connections; the defaults are the Java client's."""

    connect_timeout_s: float = 3.0
    """Seconds to wait for a TCP connection."""
    frame_bytes_max: int = 16 << 20
    """Longest frame that is sent or accepted, in bytes, its length word included."""

    def __post_init__(self) -> None:
        check_fields(self, positive=("connect_timeout_s",))
        if self.frame_bytes_max < 1024:
            raise ValueError(f"frame_bytes_max must be at least 1024, not {self.frame_bytes_max}")


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` at the last colon; ``[::1]:9876`` loses its brackets."""
    if not isinstance(address, str):
        raise InvalidName(f"an address is a text, as '127.0.0.1:9876', not {address!r}")
    host, colon, port = address.rpartition(":")
    if (
        not colon
        or not host.isprintable()
        or not host
        or not port.isascii()
        or not port.isdigit()
        or len(port) > 5  # no number of thousands of digits, which int() refuses
        or int(port) > 65535
    ):
        raise InvalidName(f"{address!r} is not an address: write host:port, as 127.0.0.1:9876")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, int(port)


def check_length(answer: Frame, code: int, address: str) -> None:
    """Raise ``BadAnswer`` for a body that is longer than that of any answer to ``code``."""
    size_bytes = len(answer.body)
    if size_bytes > QUICK_BYTES and size_bytes > (most := longest_answer(code)):
        reason = f"its body has {size_bytes} bytes, at most {most} are read"
        raise BadAnswer(address, request_name(code), reason)


def accepted(answer: Frame, accept: Container[int], address: str) -> Frame:
    """Return ``answer`` if its code is in ``accept``. Raises ``RefusedByBroker``."""
    if answer.code not in accept:
        raise RefusedByBroker(answer.code, answer.remark, address)
    return answer


@final
class RemotingClient:
    """Calls servers by address. Made by `open_remoting_client`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        dial: Dial,
        options: RemotingOptions,
        credentials: Credentials | None,
    ) -> None:
        self._nursery = nursery
        self.dial = dial
        """The way to the network."""
        self._credentials = credentials
        self._options = options
        self._links: dict[str, Link] = {}
        self._handlers: dict[int, Handler] = {}
        self._watches: list[Callable[[str], None]] = []
        self._closed = False

    async def call(
        self,
        address: str,
        frame: Frame,
        timeout_s: float = 3.0,
        *,
        accept: Container[int] = SUCCESS_ONLY,
    ) -> Frame:
        """Send a request and return the answer, if its code is in ``accept``.

        Any other code raises ``RefusedByBroker``; no connection ``BrokerUnreachable``; no
        answer within ``timeout_s`` seconds, the time to connect included,
        ``RequestTimedOut``; one that is longer than any to the request (``AnswerSize``)
        ``BadAnswer``. May be cancelled at any point: the connection stays usable, and
        an answer that comes late is dropped.
        """
        if self._credentials is not None:
            frame = sign(frame, self._credentials, address)
        answer = await self._link(address).call(frame, timeout_s)
        check_length(answer, frame.code, address)
        return accepted(answer, accept, address)

    def known_link(self, address: str) -> Link | None:
        """Return the connection to ``address``, which may be opening; in any thread."""
        return self._links.get(address)

    def encoded(self, frame: Frame, address: str) -> bytes:
        """Return the bytes of a request with a number, for ``Link.submit``; in any thread.

        Raises ``WrongValue`` for what has no encoding.
        """
        if self._credentials is not None:
            frame = sign(frame, self._credentials, address)
        return encoded(frame)

    async def oneway(self, address: str, frame: Frame, timeout_s: float = 3.0) -> None:
        """Send a request that is not answered; ``frame`` carries the one-way flag.

        Raises ``BrokerUnreachable`` when there is no connection, or when it takes no bytes for
        ``timeout_s`` seconds. Returning means that the frame is on its way, not that the server
        took it.
        """
        if self._credentials is not None:
            frame = sign(frame, self._credentials, address)
        await self._link(address).deliver(frame, timeout_s)

    def handle(self, code: int, handler: Handler) -> None:
        """Answer the server's own requests of ``code`` with ``handler``; others get code 3."""
        assert code not in self._handlers, f"code {code} has a handler already"
        self._handlers[code] = handler

    def on_disconnect(self, watch: Callable[[str], None]) -> None:
        """Call ``watch`` with the address whenever a connection ends."""
        self._watches.append(watch)

    @property
    def connected_addresses(self) -> tuple[str, ...]:
        """Addresses with a connection that is open or being opened."""
        return tuple(self._links)

    def connection_number(self, address: str) -> int | None:
        """Return a number that only the present connection to ``address`` has; None without one."""
        link = self._links.get(address)
        return None if link is None else link.number

    def _link(self, address: str) -> Link:
        link = self._links.get(address)
        if link is None:
            if self._closed:
                raise ClientClosed("client")
            host, port = split_address(address)
            options = self._options
            link = self._links[address] = Link(
                address,
                serve=self._serve,
                on_broken=self._forget,
                max_bytes=options.frame_bytes_max,
            )
            timeout_s = options.connect_timeout_s
            self._nursery.start_soon(self._run_link, link, host, port, timeout_s)
        return link

    async def _run_link(self, link: Link, host: str, port: int, timeout_s: float) -> None:
        await link.run(self.dial, host, port, connect_timeout_s=timeout_s)

    def _forget(self, link: Link) -> None:
        if self._links.get(link.address) is link:
            del self._links[link.address]
        if not self._closed:
            LOGGER.info("%s: disconnected: %s", link.address, link.broken)
            for watch in self._watches:
                watch(link.address)

    # Requests of the servers

    def _serve(self, link: Link, frame: Frame) -> Awaitable[None] | None:
        handler = self._handlers.get(frame.code)
        if handler is None:
            self._reply(
                link, frame, frame.reply(3, remark=f" request type {frame.code} not supported")
            )
            return None
        try:
            result = handler(frame, link.address)
        except Exception as error:
            self._reply(link, frame, self._failure(frame, error))
            return None
        if result is None or isinstance(result, Frame):
            self._reply(link, frame, result)
            return None
        return self._serve_later(link, frame, result)

    async def _serve_later(self, link: Link, frame: Frame, result: Awaitable[Frame | None]) -> None:
        try:
            reply = await result
        except Exception as error:
            reply = self._failure(frame, error)
        self._reply(link, frame, reply)

    @staticmethod
    def _failure(frame: Frame, error: Exception) -> Frame:
        if isinstance(error, Refused):
            return frame.reply(error.code, remark=error.remark)
        if isinstance(error, RemoteProtocolError):
            return frame.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        REQUESTS.error("request %d of the server failed", frame.code, exc_info=error)
        return frame.reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")

    @staticmethod
    def _reply(link: Link, request: Frame, reply: Frame | None) -> None:
        if reply is not None and not request.is_oneway:
            link.post(reply)

    async def _close(self) -> None:
        """Give posted frames a moment to leave; then nothing is sent any more."""
        self._closed = True
        with trio.move_on_after(CLOSE_GRACE_S, shield=True):
            for link in tuple(self._links.values()):
                await link.flushed()
        for link in tuple(self._links.values()):
            link.break_off("the client was closed")


async def dial_tcp(host: str, port: int) -> trio.abc.Stream:
    """Open a TCP connection, Nagle's algorithm off."""
    return await trio.open_tcp_stream(host, port)


@asynccontextmanager
async def open_remoting_client(
    *,
    options: RemotingOptions | None = None,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    dial: Dial = dial_tcp,
) -> AsyncIterator[RemotingClient]:
    """Open a client without any connection yet; leaving the block closes all of them.

    ``credentials`` sign every request, ``tls`` protects every connection; ``dial`` is the seam
    to the network: ``(host, port)`` to a byte stream.
    """
    if tls is not None:
        if not isinstance(tls, ssl.SSLContext):
            raise WrongValue(
                "tls must be an ssl.SSLContext, as ssl.create_default_context() returns, not"
                f" {tls!r}"
            )
        dial = over_tls(dial, tls)
    async with open_quiet_nursery() as nursery:
        client = RemotingClient(nursery, dial, options or RemotingOptions(), credentials)
        try:
            yield client
        finally:
            await client._close()
            nursery.cancel_scope.cancel()
