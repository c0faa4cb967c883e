"""The look-up of many routes, side by side, when a client opens."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from .._errors import BrokerUnreachable, NoRoute, RequestTimedOut
from .._tasks import gather
from ..observe._log import get_logger
from ._routes import Routes

LOGGER = get_logger("lanemq.sdk.client")

LOOK_UPS_AT_ONCE: Final = 32
"""Routes that are asked for side by side."""


async def look_up_routes(routes: Routes, topics: Sequence[str], *, required: bool) -> None:
    """Look for the routes of ``topics`` side by side, before they are used.

    A topic without a route may come, and so may a name server: neither is an error, unless the
    routes are ``required``. Raises ``NoRoute``, ``BrokerUnreachable`` and ``RequestTimedOut``
    then, and in any case what a name server that answers does not explain by a missing topic.
    """
    at_once, unreachable = trio.CapacityLimiter(LOOK_UPS_AT_ONCE), False

    async def look(topic: str) -> None:
        nonlocal unreachable
        async with at_once:
            if unreachable:
                return
            try:
                await routes.refresh(topic)
            except (BrokerUnreachable, RequestTimedOut) as error:
                if required:
                    raise
                unreachable = True
                LOGGER.warning("no route of %s yet, trying again: %s", topic, error)
        if required and routes.get(topic) is None:
            raise NoRoute(topic, "no name server knows it, and require_route is set")

    await gather([partial(look, topic) for topic in topics])
