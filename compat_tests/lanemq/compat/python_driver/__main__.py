"""``python -m lanemq.compat.python_driver`` answers the harness's commands with lanemq.sdk."""

from typing import Any

import trio

from . import _consumers, _producers, _pullers
from ._session import Command, Session, serve


async def _close(session: Session, arguments: dict[str, Any]) -> object:
    await session.close(arguments["name"])
    return True


def _commands() -> dict[str, Command]:
    """Return all commands; what ``open_x`` opens is closed by ``close_x``."""
    commands = {**_producers.COMMANDS, **_consumers.COMMANDS, **_pullers.COMMANDS}
    opening = [name for name in commands if name.startswith("open_")]
    return commands | {name.replace("open_", "close_", 1): _close for name in opening}


if __name__ == "__main__":
    trio.run(serve, _commands())
