"""Moves of queues at proxies in front of a cluster, which drive them themselves."""

from collections.abc import Callable
from typing import Final

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import QueueMove

from ...._errors import RefusedByBroker
from ..._client import AdminClient

MOVING: Final = "moving"
_NO_PROXY: Final = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,)


async def move_at_proxy(
    admin: AdminClient,
    topic: str,
    index: int,
    broker: str,
    *,
    report: Callable[[str], None],
) -> QueueMove | None:
    """Have a queue moved, and return where it goes on; None where no proxy is asked.

    It is safe to call again after any error: the move goes on where it has got to.
    """
    address = admin.name_servers[0]
    before = ""
    while True:
        try:
            found = await admin.move_queue(address, topic, index, broker)
        except RefusedByBroker as error:
            if error.code not in _NO_PROXY:
                raise
            return None
        if found.state != MOVING:
            report(
                f"queue {index} of {topic} continues at queue {found.queue_id} of "
                f"{found.broker_name}, from offset {found.begin} on"
            )
            return found
        if found.what != before:
            report(found.what)
            before = found.what


async def abort_at_proxy(
    admin: AdminClient, topic: str, index: int, *, report: Callable[[str], None]
) -> QueueMove | None:
    """Call a move off; None where no proxy is asked."""
    try:
        found = await admin.move_queue(admin.name_servers[0], topic, index, abort=True)
    except RefusedByBroker as error:
        if error.code not in _NO_PROXY:
            raise
        return None
    report(f"queue {index} of {topic} stays where it is")
    return found
