"""The seam between a transport that has work to do and the turns of the event loop."""

from collections.abc import Hashable
from typing import Protocol


class Turn(Protocol):
    """The time of a turn of the event loop, which all connections share."""

    @property
    def is_free(self) -> bool:
        """True if a task may begin its work in this turn."""

    def slice_s(self) -> float:
        """Return the seconds for which the task that runs may go on."""

    def spend(self, seconds: float) -> None:
        """Count the seconds that a task has taken."""

    async def begin(self, owner: Hashable) -> None:
        """Return in a turn that has time left."""
