"""Tells whether a broker knows all members of groups again: after its start it knows none of them.

Clients ask for routes, and send heartbeats, every 30 s each. Who looks for members at a broker that
has just started would find nobody there.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import trio

from lanemq.sdk import RefusedByBroker
from lanemq.sdk.admin import AdminClient
from lanemq.wire import RemoteProtocolError, ResponseCode

from ._context import MoveContext

LOOK_S: Final = 5.0
STARTED_S: Final = 5.0
_AGAIN_S: Final = 0.05
_RUNTIME: Final = re.compile(
    r"\[ (\d{1,9}) days, (\d\d?) hours, (\d\d?) minutes, (\d\d?) seconds \]"
)


async def has_heard(context: MoveContext, broker: str, say: Callable[[str], None]) -> bool:
    """Return whether a broker is up for so long that what was found there *before* has all members;
    else wait a moment, after which it is to be looked at once more. ``say`` is told that.

    Raises ``LanemqError``, ``RemoteProtocolError``, ``MoveRefused``.
    """
    if not context.heard_s:
        return True
    told = (await runtime_of(context.admin, context.known(broker))).get("runtime", "")
    found = _RUNTIME.fullmatch(told)
    if found is None:
        raise RemoteProtocolError(f"broker {broker} does not tell for how long it is up: {told!a}")
    days, hours, minutes, seconds = map(int, found.groups())
    up_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    # That counts from before it reads its log, which can take minutes; then it is listed.
    left_s = context.heard_s - min(up_s, context.moving.stands.listed_s(broker))
    if left_s <= 0:
        return True
    say(f"waits until clients have sent heartbeats to {broker}, which has just started")
    await trio.sleep(min(left_s, LOOK_S))
    return False


async def runtime_of(admin: AdminClient, address: str) -> Mapping[str, str]:
    """Return what a broker tells of itself; one that has just started refuses for a second.

    Raises ``LanemqError``, ``RemoteProtocolError``. Source: RocketMQ 4.9.7,
    StoreStatsService.getPutTps: there is no last sample before the first.
    """
    with trio.move_on_after(STARTED_S):
        while True:
            try:
                return await admin.runtime(address)
            except RefusedByBroker as error:
                if error.code != ResponseCode.SYSTEM_ERROR:
                    raise
            await trio.sleep(_AGAIN_S)
    return await admin.runtime(address)
