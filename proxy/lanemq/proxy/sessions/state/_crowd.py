"""Messages that come into queues, and queues on which very many pulls wait: no one turn of the loop
looks at all of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar, final

ARRIVALS_MAX: Final = 32
"""Most messages for which the many pulls of a queue are looked at together; for more of them all
are woken, and find out for themselves."""

HoldT = TypeVar("HoldT")


@final
class Arrival:
    """A message that came into a queue, which ends at ``max_offset`` with it."""

    __slots__ = ("_data", "_properties", "_verdicts", "max_offset", "tags_code")

    def __init__(self, max_offset: int, tags_code: int, properties: Callable[[], bytes]) -> None:
        self.max_offset = max_offset
        self.tags_code = tags_code
        self._properties = properties
        self._verdicts: dict[Callable[[bytes], bool], bool] | None = None
        """None until it is first asked for: most messages are not judged."""

    def verdict(
        self, matches: Callable[[bytes], bool], may_judge: Callable[[], bool]
    ) -> bool | None:
        """Return what a judge says of the message; None where there is no time to ask it."""
        verdicts = self._verdicts
        verdict = None if verdicts is None else verdicts.get(matches)
        if verdict is None and may_judge():
            if verdicts is None:
                verdicts, self._data = {}, self._properties()
                self._verdicts = verdicts
            verdict = verdicts[matches] = matches(self._data)
        return verdict


@final
class Crowd(Generic[HoldT]):
    """A queue with so many pulls that they are looked at in steps, pass by pass."""

    __slots__ = ("holds", "looked_for", "news", "wakes", "woken_next")

    def __init__(self) -> None:
        self.holds: Iterator[HoldT] = iter(())
        self.looked_for: list[Arrival] = []
        """The messages of this pass."""
        self.wakes = False
        """True if this pass wakes all."""
        self.news: list[Arrival] = []
        """The messages of the next pass."""
        self.woken_next = False
        """True if that wakes all."""

    def note(self, arrival: Arrival) -> None:
        if len(self.news) < ARRIVALS_MAX:
            self.news.append(arrival)
        else:
            self.woken_next = True

    def begin(self, waiting: Iterable[HoldT]) -> bool:
        """Begin the next pass; returns False where nothing calls for one."""
        if not self.news and not self.woken_next:
            return False
        self.holds = iter(list(waiting))
        self.looked_for, self.news = self.news, []
        self.wakes, self.woken_next = self.woken_next, False
        return True
