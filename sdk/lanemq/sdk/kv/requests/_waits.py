"""Requests that wait at a broker for changes, and what is done where it has no place for them."""

from typing import Final, Protocol

import msgspec
import trio

from lanemq.wire import ResponseCode
from lanemq.wire.headers import KvFollow, KvWatch
from lanemq.wire.kv import Changes, decode_answer

from ..._errors import RefusedByBroker

FIRST_LOOK_S: Final = 0.5
LOOK_S_MAX: Final = 4.0
"""Seconds between two looks for changes while the broker lets no more requests wait."""


class Ask(Protocol):
    """Asks a broker, which may wait for some seconds; returns the body of its answer."""

    async def __call__(self, header: KvWatch | KvFollow, *, wait_s: float) -> bytes: ...


async def changes_after(header: KvWatch | KvFollow, wait_s: float, ask: Ask) -> Changes:
    """Return the changes from the position of a header on; none where ``wait_s`` is over first.

    A broker has so many places for requests that wait, and a connection has a share of them. A
    request without a place is one more that looks now and then: it is no failure, however long it
    lasts. Raises as ``ask``.
    """
    until_s, pause_s = trio.current_time() + wait_s, FIRST_LOOK_S
    while True:
        waiting = msgspec.structs.replace(header, wait_millis=max(1, int(wait_s * 1000)))
        try:
            return decode_answer(await ask(waiting, wait_s=wait_s), Changes)
        except RefusedByBroker as error:
            if error.code != ResponseCode.SYSTEM_BUSY:
                raise
        # A broker that is busy with something else has no answer to this either, and is asked
        # until the time of a call is over.
        look = msgspec.structs.replace(header, wait_millis=0)
        found = decode_answer(await ask(look, wait_s=0.0), Changes)
        wait_s = until_s - trio.current_time()
        if found.changes or wait_s <= 0:
            return found
        header = msgspec.structs.replace(
            header, position=found.next_position, index=found.next_index
        )
        await trio.sleep(min(pause_s, wait_s))
        pause_s = min(2 * pause_s, LOOK_S_MAX)
        wait_s = max(0.001, until_s - trio.current_time())
