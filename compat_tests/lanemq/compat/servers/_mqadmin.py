"""The real mqadmin, many commands in one JVM."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import trio

from lanemq.local import make_directories

from ..clients._driver import Driver, open_driver
from ..peers._drivers import mqadmin_driver
from ..peers._programs import make_tools_home

ATTEMPTS_MAX = 5
OUT_OF_TIME = "RemotingTimeoutException", "RemotingTooMuchRequestException"
"""mqadmin gives a command's first question 5 s, less the time in which it found its own classes;
the JVM may be slow for as long on a busy machine, and no option changes that. A producer says the
second where all of the time is over before it asks (``DefaultMQProducerImpl``)."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The output of one command; mqadmin has no exit status worth looking at."""

    out: str
    err: str
    runs: int
    """Runs of the command, each of which may have had its effect."""


@final
class MqadminShell:
    """Runs commands of one release, one at a time."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._has_read = False

    async def run(self, *args: str, seconds: int | None = None) -> Printed:
        """Run one command; again where it had no time. Raises ``DriverFailed`` where the JVM has
        ended.

        One with ``seconds`` is run once, and interrupted after them. Before the first of a cluster
        another one, which only reads, takes the time that most classes need: one that changes
        something has done so, perhaps, where it had no time for the answer.
        """
        for option, reading in (("-n", "clusterList"), ("-b", "brokerStatus")):
            if option in args and not self._has_read:
                self._has_read = True
                await self.run(reading, option, args[args.index(option) + 1])
        bound = {} if seconds is None else {"seconds": seconds}
        for number in range(ATTEMPTS_MAX if seconds is None else 1):
            result = await self._driver.call("run", arguments=args, **bound)
            printed = Printed(result["out"], result["err"], number + 1)
            if not any(error in printed.err for error in OUT_OF_TIME):
                break
        return printed

    async def names(self) -> list[str]:
        """Return the names of all commands of the release."""
        return list(await self._driver.call("names"))


@asynccontextmanager
async def open_mqadmin(version: str, folder: Path) -> AsyncIterator[MqadminShell]:
    """Start the mqadmin of one release; its home is made in ``folder``.

    Raises ``PeersMissing`` and ``BuildFailed``.
    """
    command = await trio.to_thread.run_sync(mqadmin_driver, version, folder)
    make_directories(folder)
    make_tools_home(folder)
    async with open_driver(f"mqadmin-{version}", command, folder) as driver:
        yield MqadminShell(driver)
