"""The first commit of a group in a topic, awaited alone at each broker.

A broker keeps the offsets of a group in a topic in one table. Apache's makes it in two steps: of
several first commits that arrive at once, each may find no table and put one of its own, and only
the last one stays.
Source: RocketMQ 4.9.7 and 5.3.3, ConsumerOffsetManager.commitOffset.
"""

import copy
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from ..._errors import LanemqError, RefusedByBroker

TOPICS_MAX: Final = 10_000
"""Most topics of one broker that are remembered; what is forgotten is awaited once more."""


@final
class _First:
    """A first commit under way."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.failure: LanemqError | None = None


@final
class FirstCommits:
    """Remembers the brokers that have a table of one group's offsets, by topic.

    ``connection_number`` tells the connections to an address apart. A broker that comes back may
    have lost what it had not written, so what is known counts for one connection.
    """

    def __init__(self, connection_number: Callable[[str], int | None]) -> None:
        self._connection_number = connection_number
        self._known: dict[str, tuple[int | None, set[str]]] = {}
        self._under_way: dict[tuple[str, str], _First] = {}

    def has_table(self, address: str, topic: str) -> bool:
        """Return whether the broker has the table for certain."""
        number, topics = self._known.get(address, (None, ()))
        return topic in topics and number == self._connection_number(address)

    def note(self, address: str, topic: str) -> None:
        """Remember that the broker has just shown that it has the table."""
        number = self._connection_number(address)
        known, topics = self._known.get(address, (None, set[str]()))
        if known != number or len(topics) >= TOPICS_MAX:
            topics = set()
        topics.add(topic)
        self._known[address] = number, topics

    async def commit(
        self,
        address: str,
        topic: str,
        *,
        first: Callable[[], Awaitable[object]],
        later: Callable[[], Awaitable[object]],
    ) -> None:
        """Commit by ``later`` where the broker has the table, else by ``first``, one at a time.

        ``first`` returns when the broker has answered. Where it gets no answer, those that wait
        for it fail for the same reason, and not each by a time-out of its own.
        """
        place = address, topic
        while not self.has_table(address, topic):
            ahead = self._under_way.get(place)
            if ahead is None:
                await self._begin(place, first)
                return
            await ahead.over.wait()
            if ahead.failure is not None:
                raise copy.copy(ahead.failure)
        await later()

    async def _begin(self, place: tuple[str, str], first: Callable[[], Awaitable[object]]) -> None:
        turn = self._under_way[place] = _First()
        try:
            await first()
        except RefusedByBroker:
            raise  # it may be about one queue: the next one asks for itself
        except LanemqError as error:
            turn.failure = error
            raise
        else:
            self.note(*place)
        finally:
            del self._under_way[place]
            turn.over.set()
