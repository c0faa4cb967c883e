"""A small HTTP/1.1 server for GET and HEAD, over h11.

Whoever connects can cost little: connections, the size of a request, its time, and the number of
requests on one connection are bounded, and no request has a body.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple, final

import h11
import trio

from lanemq.local import get_logger

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


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


Route = Callable[[], Awaitable[Page]]


@final
class HttpServer:
    """Serves pages at paths."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self.connections = 0
        """The number of open connections."""

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
        if self.connections >= CONNECTIONS_MAX:
            await trio.aclose_forcefully(stream)
            return
        self.connections += 1
        try:
            async with stream:
                await self._serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # gone, or too slow: there is nobody to answer
        except Exception:
            LOGGER.exception("an HTTP request failed")
        finally:
            self.connections -= 1

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
                await stream.send_all(_encoded(connection, page, is_head=is_head, closes=closes))
            if closes or set(connection.states.values()) != {h11.DONE}:
                return
            connection.start_next_cycle()

    async def _answer(self, request: h11.Request) -> Page:
        if request.method not in (b"GET", b"HEAD"):
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        path = request.target.split(b"?", 1)[0].decode("ascii", "replace")
        route = self._routes.get(path)
        if route is None:
            paths = " ".join(sorted(self._routes))
            return Page(HTTPStatus.NOT_FOUND, f"there are: {paths}\n".encode())
        return await route()


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


def _encoded(connection: h11.Connection, page: Page, *, is_head: bool, closes: bool) -> bytes:
    headers = [
        ("Content-Type", page.content_type),
        ("Content-Length", str(len(page.body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    if closes:
        headers.append(("Connection", "close"))
    response = h11.Response(status_code=page.status, reason=page.status.phrase, headers=headers)
    parts = [connection.send(response)]
    if not is_head:
        parts.append(connection.send(h11.Data(data=page.body)))
    parts.append(connection.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)
