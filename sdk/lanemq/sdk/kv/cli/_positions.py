"""Positions in the log of a namespace, as options of commands have them."""

from typing import final

import click

from lanemq.wire import LONG_MAX


@final
class Positions(click.ParamType[tuple[int, ...]]):
    """Positions, joined by commas."""

    name = "N,N,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read them."""
        parts = str(value).split(",")
        if not all(map(_is_position, parts)):
            self.fail(f"{value!r} is not a position, nor several joined by commas", param, ctx)
        return tuple(map(int, parts))


def _is_position(text: str) -> bool:
    is_number = text.isdecimal() and len(text) <= len(str(LONG_MAX))  # more takes long to read
    return is_number and int(text) <= LONG_MAX
