"""The making of connections to one broker, of which a dead one gets few.

When a broker dies, all its clients connect once more, through a proxy that holds a descriptor for
each try, for seconds where nothing answers. So no more than ``TRIES_MAX`` are made at once; and
while the broker cannot be reached, one client at a time tries, and the others are refused at once
with what the last try found.
"""

from typing import Final, final

import trio

from lanemq.sdk import Dial
from lanemq.wire import HostAddress

CONNECT_S: Final = 3.0
"""Seconds that a connection to a broker may take, the wait for others' tries among it."""
TRIES_MAX: Final = 64
"""Most connections that are being made at once."""
PAUSE_MAX_S: Final = 1.0
"""Seconds at most between a try that failed and the next; it is as long as the try took."""
_SLOW: Final = f"cannot connect within {CONNECT_S:g} s"


class Unreachable(Exception):  # noqa: N818 - says what happened
    """The broker cannot be reached. The text says why."""


@final
class Connecting:
    """The tries of one broker."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self.problem = ""
        """The reason why the last try failed; empty once one did not."""
        self._is_tried = False  # by the one client that may, since it cannot be reached
        self._again_s = 0.0
        self._room = trio.CapacityLimiter(TRIES_MAX)

    def moved(self) -> None:
        """Forget what was found at another address."""
        self.problem, self._again_s = "", 0.0

    async def connect(self, address: str) -> trio.abc.Stream:
        """Connect to the broker. Raises ``Unreachable``."""
        if not address:
            raise Unreachable("cannot connect: name servers do not list the broker")
        self._check()
        begun_s = trio.current_time()
        with trio.move_on_after(CONNECT_S):
            async with self._room:
                self._check()  # others may have found out meanwhile
                return await self._try(address)
        self._failed(_SLOW, begun_s)
        raise Unreachable(_SLOW)

    def _check(self) -> None:
        if self.problem and (self._is_tried or trio.current_time() < self._again_s):
            raise Unreachable(self.problem)

    def _failed(self, reason: str, begun_s: float) -> None:
        now_s = trio.current_time()
        self.problem, self._again_s = reason, now_s + min(PAUSE_MAX_S, now_s - begun_s)

    async def _try(self, address: str) -> trio.abc.Stream:
        host, port = HostAddress.parse(address)
        begun_s, is_alone = trio.current_time(), bool(self.problem)
        self._is_tried |= is_alone
        try:
            stream = await self._dial(host, port)
        except ValueError as error:  # no name that a host can have
            reason = f"cannot connect: {host!a} is not the name of a host: {error}"
            self._failed(reason, begun_s)
            raise Unreachable(reason) from error
        except OSError as error:
            cause = error.__cause__
            reason = f"cannot connect: {cause if isinstance(cause, OSError) else error}"
            self._failed(reason, begun_s)
            raise Unreachable(reason) from error
        finally:
            if is_alone:
                self._is_tried = False
        self.problem = ""
        return stream
