"""A small HTTP/1.1 server for GET and HEAD, over h11.

Pages are for requests to an address, to ``localhost`` or to names that an operator gave: a site
whose name leads to this server, by DNS, gets nothing through a browser that can reach it.

Whoever connects can cost little: connections, the size of a request, its time, and the number of
requests on one connection are bounded, and no request has a body.
"""

import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, NamedTuple, final

import h11
import trio

from lanemq.local import get_logger

from ..limits._quotas import PeerQuota

LOGGER = get_logger("lanemq.proxy.http", by_peers=True)

CONNECTIONS_MAX: Final = 32
HEAD_BYTES_MAX: Final = 8 << 10
"""Bytes of a request, which has a line and headers."""
READ_S: Final = 10.0
"""Seconds for a whole request, and between two on one connection."""
WRITE_S: Final = 10.0
"""Seconds for a whole answer to leave."""
REQUESTS_MAX: Final = 1000
"""Requests on one connection."""
RECEIVE_BYTES: Final = 4096
TEXT: Final = "text/plain; charset=utf-8"
UNKNOWN_NAME: Final = (
    b"this server is not known by that name: use its address, or start it with --http-name NAME\n"
)


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    body: bytes | Sequence[bytes]
    """In parts where it is long: they leave one after the other, and are not copied."""
    content_type: str = TEXT


Route = Callable[[], Awaitable[Page]]


@final
class HttpServer:
    """Serves pages at paths, to requests for addresses, ``localhost`` and ``names``."""

    def __init__(self, routes: Mapping[str, Route], names: Iterable[str] = ()) -> None:
        self._routes = routes
        self._names = {"localhost", *map(str.lower, names)}
        self.connections = PeerQuota[str](CONNECTIONS_MAX, share=1)
        """The open connections by address: one gets half of those that others leave."""

    async def serve(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve at open sockets until cancelled."""
        wrapped = [trio.SocketListener(trio.socket.from_stdlib_socket(one)) for one in listeners]
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self.serve_stream, wrapped)
            task_status.started()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve one connection to its end."""
        host = _host(stream)
        if not self.connections.has_room(host):
            await trio.aclose_forcefully(stream)
            return
        self.connections.take(host)
        try:
            async with stream:
                await self._serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # gone, or too slow: there is nobody to answer
        except Exception:
            LOGGER.exception("an HTTP request failed")
        finally:
            self.connections.give_back(host)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        for _ in range(REQUESTS_MAX):
            is_head = False
            try:
                with trio.fail_after(READ_S):
                    request = await _request(connection, stream)
                if request is None:
                    return
                is_head = request.method == b"HEAD"
                page, closes = await self._answer(request), False
                if _has_body(request):
                    page, closes = (
                        Page(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"no bodies here\n"),
                        True,
                    )
            except h11.RemoteProtocolError as error:
                status = HTTPStatus(error.error_status_hint)
                page, closes = Page(status, f"{status.phrase}\n".encode()), True
            if connection.states[h11.SERVER] not in (h11.IDLE, h11.SEND_RESPONSE):
                return
            with trio.fail_after(WRITE_S):
                for part in _encoded(connection, page, is_head=is_head, closes=closes):
                    await stream.send_all(part)
            if closes or set(connection.states.values()) != {h11.DONE}:
                return
            connection.start_next_cycle()

    async def _answer(self, request: h11.Request) -> Page:
        if request.method not in (b"GET", b"HEAD"):
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        if not all(
            map(self._is_own, (value for name, value in request.headers if name == b"host"))
        ):
            return Page(HTTPStatus.MISDIRECTED_REQUEST, UNKNOWN_NAME)
        path = request.target.split(b"?", 1)[0].decode("ascii", "replace")
        route = self._routes.get(path)
        if route is None:
            paths = " ".join(sorted(self._routes))
            return Page(HTTPStatus.NOT_FOUND, f"there are: {paths}\n".encode())
        return await route()

    def _is_own(self, host: bytes) -> bool:
        """Return whether the ``Host`` of a request, with or without a port, is this server."""
        text = host.decode("latin-1").lower()
        name = text[1:].partition("]")[0] if text[:1] == "[" else text.partition(":")[0]
        try:
            ip_address(name)
        except ValueError:
            return name.removesuffix(".") in self._names
        return True


async def _request(connection: h11.Connection, stream: trio.abc.Stream) -> h11.Request | None:
    """Read a request with the end of it; None where the peer has closed the connection."""
    request: h11.Request | None = None
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
        elif isinstance(event, h11.Request):
            request = event
            if _has_body(request):
                return request
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


def _has_body(request: h11.Request) -> bool:
    headers = dict(request.headers)
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _host(stream: trio.abc.Stream) -> str:
    """Return the address of a peer; "" where there is none."""
    if not isinstance(stream, trio.SocketStream):
        return ""
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:  # gone already
        return ""


def _encoded(
    connection: h11.Connection, page: Page, *, is_head: bool, closes: bool
) -> Iterator[bytes]:
    body = [page.body] if isinstance(page.body, bytes) else page.body
    headers = [
        ("Content-Type", page.content_type),
        ("Content-Length", str(sum(map(len, body)))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    if closes:
        headers.append(("Connection", "close"))
    response = h11.Response(status_code=page.status, reason=page.status.phrase, headers=headers)
    head = connection.send(response) or b""
    if is_head or len(body) != 1:
        yield head
        head = b""
    for part in () if is_head else body:
        yield head + (connection.send(h11.Data(data=part)) or b"")
    connection.send(h11.EndOfMessage())
