"""Discovery of name servers: by the caller, by the environment, or by an HTTP endpoint.

Source: RocketMQ 4.9.8, MixAll.getWSAddr, TopAddressing, HttpTinyClient.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final
from urllib.parse import urlsplit

import h11
import trio

from .._errors import BadAnswer, BrokerUnreachable, InvalidName, RequestTimedOut
from ._link import Dial
from ._remoting import split_address

NameServersLike: TypeAlias = str | Sequence[str] | None
"""``"a:9876;b:9876"``, a sequence of addresses, an endpoint ``"http://host/path"``, or None for
what the environment variable ``NAMESRV_ADDR`` says, in the same forms."""

VARIABLE: Final = "NAMESRV_ADDR"
DEFAULT_PATH: Final = "/rocketmq/nsaddr"
FETCH_TIMEOUT_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 1 << 16
RECEIVE_BYTES: Final = 4096
OK: Final = 200
GET: Final = -1  # stands for a request code where there is none


@final
@dataclass(frozen=True, slots=True)
class Endpoint:
    """An HTTP server that lists the name servers, ``host:port;host:port``."""

    host: str
    port: int
    target: str

    def __str__(self) -> str:
        return f"http://{self.host}:{self.port}{self.target}"


def find_name_servers(
    given: NameServersLike, *, unit_name: str = "", environment: Mapping[str, str] = os.environ
) -> tuple[str, ...] | Endpoint:
    """Return the addresses of the name servers, or the endpoint to ask for them.

    An endpoint is asked for the name servers of a unit by another path. Raises
    ``InvalidName`` for a bad address, and if there is none at all.
    """
    if given is None:
        given = environment.get(VARIABLE)
        if given is None or not given.strip():
            raise InvalidName(
                "no name server given: pass name_servers='host:port;host:port' or"
                f" 'http://host/path', or set {VARIABLE}"
            )
    if isinstance(given, str) and "://" in given:
        return parse_endpoint(given.strip(), unit_name)
    return parse_addresses(given)


def parse_addresses(text: str | Sequence[str]) -> tuple[str, ...]:
    """Parse addresses in ``"a:9876;b:9876"`` (commas do as well), or take a sequence of them.

    Raises ``InvalidName`` for a bad address, and if there is none.
    """
    if not isinstance(text, str | Sequence):
        raise InvalidName(f"name servers are a text, as '127.0.0.1:9876', not {text!r}")
    parts = text.replace(",", ";").split(";") if isinstance(text, str) else text
    for part in parts:
        if not isinstance(part, str):
            raise InvalidName(f"the address of a name server is a text, not {part!r}")
    addresses = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not addresses:
        raise InvalidName("no name server given: write host:port;host:port, as 127.0.0.1:9876")
    for address in addresses:
        split_address(address)
    return addresses


def parse_endpoint(url: str, unit_name: str = "") -> Endpoint:
    """Parse ``http://host[:port][/path]``; without them, the port is 80 and the path Java's.

    Raises ``InvalidName``.
    """
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise InvalidName(f"{url!a} is not an endpoint: write http://host:port/path")
    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port or parts.fragment:
        raise InvalidName(f"{url!r} is not an endpoint: write http://host:port/path")
    target = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    if unit_name:
        target += f"-{unit_name}?nofix=1"
    elif parts.query:
        target += f"?{parts.query}"
    return Endpoint(parts.hostname, port, target)


async def fetch_name_servers(endpoint: Endpoint, dial: Dial) -> tuple[str, ...]:
    """Ask ``endpoint``.

    Raises ``BrokerUnreachable``, ``RequestTimedOut`` (after 3 s), and ``BadAnswer`` for
    anything but a list of addresses.
    """
    try:
        with trio.fail_after(FETCH_TIMEOUT_S):
            status, body = await _get(endpoint, dial)
    except trio.TooSlowError as error:
        raise RequestTimedOut(str(endpoint), GET, FETCH_TIMEOUT_S) from error
    except (OSError, trio.BrokenResourceError) as error:
        raise BrokerUnreachable(str(endpoint), str(error)) from error
    except h11.RemoteProtocolError as error:
        raise _bad(endpoint, str(error)) from error
    if status != OK:
        raise _bad(endpoint, f"status {status}")
    lines = body.decode("utf-8", "replace").strip().splitlines()
    try:
        return parse_addresses(lines[0] if lines else "")
    except InvalidName as error:
        raise _bad(endpoint, str(error)) from error


async def ask_name_servers(given: NameServersLike, dial: Dial) -> tuple[str, ...]:
    """Return the addresses of the name servers, asked for once where an endpoint lists them.

    Raises as ``find_name_servers`` and ``fetch_name_servers``.
    """
    found = find_name_servers(given)
    return await fetch_name_servers(found, dial) if isinstance(found, Endpoint) else found


def _bad(endpoint: Endpoint, reason: str) -> BadAnswer:
    return BadAnswer(str(endpoint), "the question for name servers", reason)


async def _get(endpoint: Endpoint, dial: Dial) -> tuple[int, bytes]:
    connection = h11.Connection(h11.CLIENT)
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    headers = [("Host", f"{host}:{endpoint.port}"), ("Connection", "close")]
    question = h11.Request(method="GET", target=endpoint.target, headers=headers)
    status, body = 0, b""
    stream = await dial(endpoint.host, endpoint.port)
    try:
        await stream.send_all(
            (connection.send(question) or b"") + (connection.send(h11.EndOfMessage()) or b"")
        )
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > ANSWER_BYTES_MAX:
                    raise h11.RemoteProtocolError(f"more than {ANSWER_BYTES_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                return status, body
    finally:
        await trio.aclose_forcefully(stream)
