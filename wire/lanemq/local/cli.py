"""The errors of commands. Needs click, which comes with ``lanemq[server]``."""

import click

from lanemq.wire import LINE_MAX, show_text


class CommandFailed(click.ClickException):
    """A command could not do its work: one line on the standard error, and exit status 1."""

    def format_message(self) -> str:
        """Return the line; foreign text in it is escaped."""
        return show_text(self.message, LINE_MAX)
