"""The group of all sub-commands, loaded when they are asked for."""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import final

import click

from lanemq.local.cli import CommandFailed

GROUP = "lanemq.commands"
BROKER_FILE = "lanemq.read_broker_file"
"""The key in a context's ``meta`` of the function that reads a broker's configuration file."""


@final
class Interrupted(CommandFailed):
    """The end of a command by Ctrl-C; click's own exit status, 1, means something else here."""

    exit_code = 2


@final
class EntryPointGroup(click.Group):
    """A click group whose commands are the entry points of ``GROUP``."""

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._entry_points())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._entry_points().get(cmd_name)
        if entry is None:
            return None
        try:
            command = entry.load()
        except ModuleNotFoundError as error:
            return _unavailable(cmd_name, error.name or str(error))
        except KeyboardInterrupt:
            raise Interrupted("interrupted, before anything was begun") from None
        assert isinstance(command, click.Command), f"{entry.value} is not a click command"
        return command


def _unavailable(name: str, module: str) -> click.Command:
    """Make a stand-in for a part that is not installed, so that the others stay usable."""

    def fail(arguments: tuple[str, ...]) -> None:
        raise CommandFailed(f"{name!r} needs the Python module {module!r}: install it first")

    return click.Command(
        name,
        callback=fail,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        short_help=f"(not available: {module} is not installed)",
        add_help_option=False,
    )


def read_broker_file(path: Path) -> dict[str, str]:
    """Return the keys and values of a broker's configuration file, for commands other than brokers.

    They are warned of and refused as a broker's start does it; a mistake that concerns a start
    alone, such as a missing certificate, is not a fault here. Raises ``ConfigInvalid``.
    """
    from lanemq.storage import ConfigInvalid

    from .._settings import ConfigError
    from ..broker import BrokerConfig

    try:
        return BrokerConfig.given_in(path)
    except ConfigError as error:
        raise ConfigInvalid(str(error)) from error


@click.group(cls=EntryPointGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lanemq", prog_name="lanemq")
@click.pass_context
def lanemq(context: click.Context) -> None:
    """RocketMQ-compatible name server, broker and tools."""
    # Parts below the servers take a broker's file, too, and know nothing of its reader.
    context.meta[BROKER_FILE] = read_broker_file
