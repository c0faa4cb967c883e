"""The process of a listener: its clients and their groups, and what runs a port."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumeMessageDirectly

from ....net._dispatch import Handlers
from ....net._server import Server
from ....net._session import Session
from ....sessions.state._clients import ClientRegistry
from ....sessions.state._locks import Asker
from ....sessions.state._stages import GroupStages
from ....sessions.values._rights import RightsOf

RecordAt = Callable[[int], Awaitable[bytes | None]]
"""Finds the record at a position, as the clients of a port see it."""
Consume = Callable[[ConsumeMessageDirectly, Frame, Session], Awaitable[Frame]]
"""Handles request 309."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerHost:
    """The parts of a process that its listener uses, with or without a broker there."""

    name: str
    """The name in logs."""
    handlers: Handlers
    """The handlers of requests about clients and groups."""
    check_sender: Callable[[Frame, Session], None] | None
    """Checks what a message touches against its sender's rights; None without accounts."""
    clients: ClientRegistry[Session]
    group: Callable[[str], SubscriptionGroupConfig | None]
    """Returns the settings of a group."""
    stages: GroupStages
    rights: RightsOf
    lock_asker: Callable[[Frame, Session], Asker]
    """Returns the account behind a request for locks."""
    now_ms: Callable[[], int]
    consume_directly: Callable[[str, RecordAt], Consume]
    """Makes the handler of request 309 at a port, of the port's broker name and its records."""
    name_servers: Sequence[str]
    properties: Mapping[str, str]
    """The properties of stored messages that senders are told of, too."""
    serve: Callable[[Handlers, str], Server]
    """Makes the server of a port of the listener, by its handlers and its name in logs."""
    supervise: Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]
    """Runs a background task by its name, again if it fails, until cancelled."""
