"""The numbers of one writer's writes to a partition, of which a few are under way. Pure."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

UNDER_WAY_MAX: Final = 200
"""Most writes of a writer under way: a state keeps the results of its latest 256."""


@final
class WriteTurn:
    """A write, from before it has its number until its result is known."""

    __slots__ = ("came", "number")

    def __init__(self, came: Callable[[], None]) -> None:
        """``came`` is called when it gets its number, if that is not at once."""
        self.came = came
        self.number = 0
        """Its number; 0 before it has one."""


@final
class WriteWindow:
    """The writes of one writer to one partition, in the order in which they came."""

    def __init__(self, most: int = UNDER_WAY_MAX) -> None:
        self._most = most
        self._next = 1
        self._outstanding: dict[int, None] = {}
        # Not a dict: from one whose first entries are gone, the first is not found at once.
        self._turns = OrderedDict[WriteTurn, None]()

    @property
    def waits(self) -> int:
        """The lowest number whose result is waited for."""
        return next(iter(self._outstanding), self._next)

    @property
    def _is_full(self) -> bool:
        return self._next - self.waits >= self._most

    def enter(self, turn: WriteTurn, *, is_besides: bool = False) -> None:
        """Give a write its number, now or when those before it have theirs and there is room.

        One that is ``is_besides`` does not wait for others, which may wait for it.
        """
        if is_besides or (not self._turns and not self._is_full):
            self._give(turn)
        else:
            self._turns[turn] = None

    def leave(self, turn: WriteTurn) -> None:
        """Forget a write: its result is known or not waited for, or it waits for no number."""
        if not turn.number:
            del self._turns[turn]  # a connection that ends has hundreds, behind many thousands
            return
        del self._outstanding[turn.number]
        # One freed place lets one write go on: thousands may wait.
        while self._turns and not self._is_full:
            following, _ = self._turns.popitem(last=False)
            self._give(following)
            following.came()

    def _give(self, turn: WriteTurn) -> None:
        turn.number = self._next
        self._next += 1
        self._outstanding[turn.number] = None
