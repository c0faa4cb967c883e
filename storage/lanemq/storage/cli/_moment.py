"""Times on the command line."""

from datetime import datetime
from typing import final

import click


@final
class Moment(click.ParamType[int]):
    """Milliseconds since 1970, or a local time in ISO form."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if text.isascii() and text.isdigit():
            return int(text)
        try:
            return int(datetime.fromisoformat(text).timestamp() * 1000)
        except ValueError:
            self.fail(
                f"{text!r} is neither a time such as 2026-11-21T04:45:40 nor a number of"
                " milliseconds since 1970",
                param,
                ctx,
            )


MOMENT = Moment()
