"""The counters of a proxy."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(slots=True)
class Counts:
    """The counters of one port; they only grow."""

    requests: int = 0
    """Requests of clients that were passed on."""
    answers: int = 0
    """Answers of the broker that were passed on."""
    refused: int = 0
    """Requests of clients that the proxy refused."""


@final
@dataclass(slots=True)
class Seen:
    """The counters of the port for routes."""

    routes: int = 0
    """Routes that were asked for."""
    kept: int = 0
    """Of these, those that no name server answered, so that the last known one did."""
    refused: int = 0
    """Requests of brokers, which are refused."""
