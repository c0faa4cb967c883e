"""The processes that share a proxy's ports: each has the status of all.

A request for the status comes to any of them. Each tells the others its own at a port on loopback,
whose number it writes into a file of the proxy's directory, with a secret: other users of the
machine reach the port, and may take it once the worker has ended. Both sides show that they have
read the file.
"""

import hmac
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, final

import trio

from lanemq.local import replace_file
from lanemq.sdk import LanemqError, RemotingClient, open_remoting_client
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode, seal
from lanemq.wire.bodies import ProxiedBroker, ProxyStatus, ProxyWorker
from lanemq.wire.frame import Frame, request
from lanemq.wire.requests import Port

from ..net._dispatch import Handlers
from ..net._server import Server
from ..net._session import Session
from ..net.limits._budget import LIMIT_MIN_BYTES, Budget
from ..net.limits._limits import Limits
from ..net.transport._listen import listen

LOOPBACK: Final = "127.0.0.1"
ASK_S: Final = 2.0
"""Seconds that another worker has to answer."""
_ONCE: Final = "once"
"""The field with what an asker has drawn, for the answer to be one to this request."""
_SEAL: Final = "seal"


@final
class Workers:
    """The workers of a proxy, of which ``number`` is this one. ``status`` returns its own."""

    def __init__(
        self, folder: Path, number: int, count: int, status: Callable[[], ProxyStatus]
    ) -> None:
        self._folder = folder
        self._number = number
        self._count = count
        self._status = status
        self._client: RemotingClient | None = None
        self._secret = secrets.token_hex(16)

    async def run(self) -> None:
        """Answer the other workers, until cancelled. Raises ``OSError`` where the port's number
        cannot be written."""
        handlers = Handlers(Port.NAME_SERVER, Port.PROXY)
        handlers.add(RequestCode.PROXY_STATUS, self._answer)
        # Its connections are not clients': they have an account elsewhere.
        server = Server(handlers, name="worker", limits=Limits(), budget=Budget(LIMIT_MIN_BYTES))
        with listen(LOOPBACK, 0) as listener:
            text = f"{listener.getsockname()[1]} {self._secret}\n"
            replace_file(self._file(self._number), text.encode(), is_secret=True)
            async with open_remoting_client() as self._client:
                await server.serve([listener])

    def _own(self) -> ProxyStatus:
        status = self._status()
        worker = ProxyWorker(
            number=self._number,
            pid=os.getpid(),
            connections=status.connections,
            longest_turn_ms=status.longest_turn_ms,
            held_turns=status.held_turns,
        )
        return replace(status, workers=(worker,))

    def _answer(self, frame: Frame, _: Session) -> Frame:
        once = frame.fields.get(_ONCE, "")
        if not _is_sealed(frame, self._secret, once):
            raise Refused(ResponseCode.NO_PERMISSION, "this port is for the proxy's own workers")
        body = self._own().encode()
        return frame.reply(fields={_SEAL: _sealed(self._secret, once, body)}, body=body)

    def _file(self, number: int) -> Path:
        return self._folder / f"worker-{number}.port"

    async def all(self) -> ProxyStatus:
        """Return the status of all workers together, with what is wrong with one that does not
        answer."""
        found: dict[int, ProxyStatus | str] = {self._number: self._own()}

        async def ask(number: int) -> None:
            found[number] = await self._told_by(number)

        async with trio.open_nursery() as nursery:
            for number in range(self._count):
                if number != self._number:
                    nursery.start_soon(ask, number)
        return merged(found[number] for number in range(self._count))

    async def _told_by(self, number: int) -> ProxyStatus | str:
        """Return the status of another worker, or why there is none."""
        try:
            port, secret = self._file(number).read_text().split()
            if self._client is None:
                return "not asked: this worker starts"
            once = secrets.token_hex(16)
            asked = request(
                RequestCode.PROXY_STATUS, {_ONCE: once, _SEAL: _sealed(secret, once, b"")}
            )
            answer = await self._client.call(f"{LOOPBACK}:{int(port)}", asked, ASK_S)
            if not _is_sealed(answer, secret, once):
                return "another program has its port"
            return ProxyStatus.decode(answer.body)
        except (OSError, ValueError, LanemqError, RemoteProtocolError) as error:
            return str(error)


def _sealed(secret: str, once: str, body: bytes) -> str:
    return seal(once.encode() + b"\n" + body, secret)


def _is_sealed(frame: Frame, secret: str, once: str) -> bool:
    """Return whether a request, or the answer to it, comes from who has read the file."""
    expected = _sealed(secret, once, frame.body)
    return hmac.compare_digest(frame.fields.get(_SEAL, "").encode(), expected.encode())


def merged(statuses: Iterable[ProxyStatus | str]) -> ProxyStatus:
    """Return the status of a proxy: numbers of all its workers together, and the rest of the first
    that has told. A text is the reason why a worker has not."""
    workers: list[ProxyWorker] = []
    told: list[ProxyStatus] = []
    for number, one in enumerate(statuses):
        if isinstance(one, str):
            workers.append(ProxyWorker(number=number, problem=one))
        else:
            workers += one.workers
            told.append(one)
    brokers: dict[tuple[str, int], ProxiedBroker] = {}
    for broker in (broker for one in told for broker in one.brokers):
        key = broker.broker_name, broker.broker_id
        before = brokers.get(key)
        brokers[key] = broker if before is None else _both(before, broker)
    return replace(
        told[0],
        connections=sum(one.connections for one in told),
        longest_turn_ms=max(one.longest_turn_ms for one in told),
        held_turns=sum(one.held_turns for one in told),
        brokers=tuple(brokers[key] for key in sorted(brokers)),
        workers=tuple(workers),
    )


def _both(one: ProxiedBroker, other: ProxiedBroker) -> ProxiedBroker:
    return replace(
        one,
        problem=one.problem or other.problem,
        links=one.links + other.links,
        requests=one.requests + other.requests,
        answers=one.answers + other.answers,
        refused=one.refused + other.refused,
    )
