"""Drained brokers that were gone, and are back: they are done no longer.

While such a broker was gone, its parts counted as deleted. Since it is back, they are read there
again, also by groups whose progress was set back: whether nobody needs it is to be found once more.
"""

from collections.abc import Callable, Collection
from typing import Final, final

import msgspec
import trio

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError

from ..kv import KeysUnavailable, TooLong
from ._queues import MovingQueues
from ._stands import change_stand

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

LOOK_S: Final = 1.0


@final
class Returns:
    """Looks for them; ``run`` is a task."""

    def __init__(
        self, moving: MovingQueues, listed: Callable[[], Collection[str]], looked: trio.Event
    ) -> None:
        """``listed`` gives the names of the brokers that have a master, once ``looked`` is set."""
        self._moving = moving
        self._listed = listed
        self._looked = looked
        self._back: dict[str, int] = {}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        await self._looked.wait()
        while True:
            try:
                await self.look()
            except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
                LOGGER.info("a drained broker that is back counts as done yet: %s", error)
            await trio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once. Raises as ``change_stand``; the next look tries it again."""
        moving = self._moving
        moving.refresh()
        self._back |= moving.stands.note_listed(self._listed())
        for broker, version in list(self._back.items()):
            stand = moving.stands.of(broker)
            if stand is not None:
                # Not where it has another version: another proxy was faster, or a drain has looked.
                now = msgspec.structs.replace(stand, is_done=False)
                await change_stand(moving.orders.keys, broker, now, version)
            del self._back[broker]
