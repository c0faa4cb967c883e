"""The cluster, and the knowledge of it, that moves and drains of one proxy share."""

from collections.abc import Awaitable, Callable, Collection
from typing import final

import trio
from attrs import define

from lanemq.sdk import RemotingClient
from lanemq.sdk.admin import AdminClient

from ._queues import MovingQueues


class MoveRefused(Exception):  # noqa: N818 - says what happened
    """A queue cannot be moved as it was asked, or not now. The text says why."""


@final
@define(frozen=True, eq=False)
class MoveContext:
    """The cluster, and what this proxy knows of its queues."""

    moving: MovingQueues
    client: RemotingClient
    admin: AdminClient
    address: Callable[[str], str | None]
    """Gives the address of a broker's master; None where name servers do not list it."""
    listed: Callable[[], Collection[str]]
    """Gives the names of all brokers that have one."""
    others: Callable[[], str]
    """Gives the reason why another proxy is in the way of a move; empty without one."""
    look: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint
    """Looks at the brokers that name servers list now: one may have come back just before."""
    heard_s: float = 0.0
    """Seconds from a broker's start after which it knows all members of groups again."""

    def known(self, broker: str) -> str:
        """Return the address of a broker's master. Raises ``MoveRefused``."""
        found = self.address(broker)
        if found is None:
            raise MoveRefused(f"broker {broker} has no master that name servers list")
        return found

    def check(self) -> None:
        """Raise ``MoveRefused`` while this proxy cannot know; else take note of the log's news."""
        if self.moving.orders.why_unknown:
            raise MoveRefused(self.moving.orders.why_unknown)
        if not self.moving.lease.is_sure:
            raise MoveRefused(f"this proxy has no lease: {self.moving.lease.why}")
        self.moving.refresh()
