"""The clients by name, and how each is started."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from ..peers._drivers import (
    GO_CLIENTS,
    JAVA_CLIENTS,
    MQADMIN_VERSIONS,
    SPRING_VERSIONS,
    cpp_driver,
    go_driver,
    java_driver,
    mqadmin_driver,
    node_driver,
    spring_driver,
)
from ..peers._programs import missing_tools
from ._driver import Driver, open_driver


@dataclass(frozen=True, slots=True)
class ClientFamily:
    """A client under test."""

    name: str
    needs: str | None
    """Key of the tools it needs ("java", "go", "node", "cpp"); ``None``: only Python."""
    command: Callable[[], list[str]]
    """Builds the driver if needed (so it blocks) and returns its command line."""

    def missing(self) -> str | None:
        """Return the name of a tool that is missing for it, if any."""
        return missing_tools(self.needs) if self.needs else None


def _python_driver() -> list[str]:
    return [sys.executable, "-m", "lanemq.compat.python_driver"]


def _java(version: str) -> ClientFamily:
    return ClientFamily(f"java-{version}", "java", lambda: java_driver(version))


def _go(version: str) -> ClientFamily:
    return ClientFamily(f"go-{version}", "go", lambda: go_driver(version))


def _spring(version: str) -> ClientFamily:
    return ClientFamily(f"spring-{version}", "java", lambda: spring_driver(version))


def _mqadmin(version: str) -> ClientFamily:
    return ClientFamily(f"mqadmin-{version}", "java", lambda: mqadmin_driver(version))


CLIENTS: dict[str, ClientFamily] = {
    family.name: family
    for family in (
        *(_java(version) for version in JAVA_CLIENTS),
        *(_go(version) for version in GO_CLIENTS),
        ClientFamily("node-ali-ons", "node", node_driver),
        ClientFamily("cpp", "cpp", cpp_driver),
        *(_spring(version) for version in SPRING_VERSIONS),
        *(_mqadmin(version) for version in MQADMIN_VERSIONS),
        ClientFamily("python", None, _python_driver),
    )
}


OTHER_CLIENTS: dict[str, ClientFamily] = {
    family.name: family
    for family in (
        ClientFamily(
            "java-5.0.0-PREVIEW-cold",
            "java",
            lambda: java_driver("5.0.0-PREVIEW", warm_up=False),
        ),
    )
}
"""Clients that the matrix has no use for."""


@asynccontextmanager
async def open_client(
    name: str, folder: Path, *, java_options: Sequence[str] = ()
) -> AsyncIterator[Driver]:
    """Run the driver of one of ``CLIENTS`` or ``OTHER_CLIENTS``, building it first if needed."""
    family = CLIENTS.get(name) or OTHER_CLIENTS[name]
    command = await trio.to_thread.run_sync(family.command)
    command[1:1] = java_options
    async with open_driver(name, command, folder) as driver:
        yield driver
