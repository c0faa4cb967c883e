"""Times on the command line."""

import math
from typing import Any, final

import click


@final
class Seconds(click.FloatRange):
    """A number of seconds, with a limit if it is one that could be for ever."""

    name = "number of seconds"

    def __init__(
        self, *, zero: bool = False, endless: bool = False, most_s: float = math.inf
    ) -> None:
        self._endless = endless
        super().__init__(min=0, min_open=not zero, max=None if most_s == math.inf else most_s)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - what click has
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read it."""
        seconds = float(super().convert(value, param, ctx))
        if not (math.isfinite(seconds) or (self._endless and seconds > 0)):
            self.fail(f"{value!r} is not a valid {self.name}", param, ctx)
        return seconds
