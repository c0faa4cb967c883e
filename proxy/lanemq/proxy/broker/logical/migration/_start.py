"""A start of a broker withholds its logical queues until it knows whether they went on elsewhere.

It was away: another broker may have gone past it by an operator's word (``-fd``), and give out
the offsets that it would give out again. So an open end takes no message before the answer about
it is known. Name servers say which other broker has an open end of the queue; where they list
one, that broker's word counts, however long it is away, or until it is forgotten. A topic whose
brokers were all away is listed once this broker is registered. Where none is listed then, or no
name server answers, the queue is open: an outage of name servers does not close queues.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

import trio

from lanemq.local import get_logger
from lanemq.wire.logical import Segment

from ....logical.rules._gate import Key
from ..state._state import LogicalState

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

START_S: Final = 5.0
"""Seconds the start as a whole waits; after that only the queues in question do."""
AGAIN_S: Final = 1.0
AT_ONCE_MAX: Final = 32
"""Topics that are asked about at the same time."""

ASKED: Final = "other brokers are being asked whether they took it over"


@final
@dataclass(frozen=True, slots=True)
class Heard:
    """The answers of other brokers about one topic."""

    unanswered: Mapping[Key, Segment] = field(default_factory=dict)
    """Own open queues for which another open end is listed whose broker does not say whether it
    took over, each with that end."""
    is_unlisted: bool = False
    """True if name servers answer, and none of them has the topic."""


Look: TypeAlias = Callable[[str], Awaitable[Heard]]
"""Asks the others about a topic, and takes over what they say."""


@final
class StartCheck:
    """Withholds the open ends of one broker that starts until each one's answer is known."""

    def __init__(self, logical: LogicalState, look: Look) -> None:
        self._logical = logical
        self._withheld = logical.gate.withheld
        self._look = look
        self._asking = trio.CapacityLimiter(AT_ONCE_MAX)
        self._is_registered = False

    async def check(self) -> None:
        """Ask before this broker is registered; returns after ``START_S`` at the latest."""
        for topic, mapping in self._logical.mappings.items():
            for segment in mapping.own():
                if segment.is_writable:
                    self._withheld[topic, segment.queue_id] = ASKED
        with trio.move_on_after(START_S):
            await self._ask()

    async def check_registered(self) -> None:
        """Ask for the rest, now that name servers know this broker; ``run`` waits for what is left.

        Returns after ``START_S`` at the latest.
        """
        self._is_registered = True
        with trio.move_on_after(START_S):
            await self._ask()
        for key, text in self._withheld.items():
            LOGGER.warning("%s/%d takes no message yet: %s", *key, text)

    async def run(self) -> None:
        """Return when nothing is withheld any more."""
        while self._withheld:
            await trio.sleep(AGAIN_S)
            await self._ask()

    async def _ask(self) -> None:
        async with trio.open_nursery() as nursery:
            for topic in sorted({topic for topic, _ in self._withheld}):
                nursery.start_soon(self._ask_about, topic)

    async def _ask_about(self, topic: str) -> None:
        async with self._asking:
            heard = await self._look(topic)
        if heard.is_unlisted and not self._is_registered:
            return
        for key in [key for key in self._withheld if key[0] == topic]:
            rival = heard.unanswered.get(key)
            if rival is None:
                del self._withheld[key]
                continue
            self._withheld[key] = (
                f"name servers list {rival} as open, and its broker does not answer; "
                f"forgetBroker -b {rival.broker_name} says that it will not come back"
            )
