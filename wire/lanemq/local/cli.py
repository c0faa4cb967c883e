"""The errors of commands. Needs click, which comes with ``lanemq[server]``."""

import re
from collections.abc import Mapping
from typing import Final

import click

from lanemq.wire import LINE_MAX, show_text

_QUOTED: Final = re.compile("`([^`]+)`")


class CommandFailed(click.ClickException):
    """A command could not do its work: one line on the standard error, and exit status 1."""

    def format_message(self) -> str:
        """Return the line; foreign text in it is escaped."""
        return show_text(self.message, LINE_MAX)


def advised(error: Exception, advice: Mapping[type[Exception], str]) -> str:
    """Return an error's text, with the advice for its class or the nearest base behind it.

    Only the command line knows which commands there are; the error knows what is wrong. A
    ``{name}`` in the advice stands for the error's attribute of that name.
    """
    for kind in type(error).__mro__:
        if text := advice.get(kind):
            return f"{error}. {text.format_map(vars(error))}"
    return str(error)


def as_given(text: str, options: Mapping[str, str]) -> str:
    """Return a library's text with what the command line has for the calls and arguments in it.

    ``options`` maps what stands between backticks to what is written instead.
    """
    return _QUOTED.sub(lambda found: options.get(found[1], found[0]), text)
