"""Declarations for servers of tests, which serve codes that are no requests of the protocol."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from lanemq.proxy.net._dispatch import Handlers
from lanemq.wire import RequestCode
from lanemq.wire.requests import REQUESTS, BodyKind, Port, RequestSpec, free


@final
@dataclass(frozen=True)
class AnyRequests(Mapping[int, RequestSpec]):
    """Declarations of every code for one port, with the body that the code really has."""

    port: Port

    def __getitem__(self, code: int) -> RequestSpec:
        known = REQUESTS.get(code)
        body = BodyKind.JSON if known is None else known.body
        touches = (free("the code of a test"),)
        return RequestSpec(RequestCode.SEND_MESSAGE, None, None, touches, (self.port,), body)

    def __iter__(self) -> Iterator[int]:
        return iter(REQUESTS)

    def __len__(self) -> int:
        return len(REQUESTS)


def any_handlers(port: Port = Port.BROKER) -> Handlers:
    """Return the registry of a server that may serve any code."""
    return Handlers(port, requests=AnyRequests(port))
