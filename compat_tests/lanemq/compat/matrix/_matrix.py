"""Runs scenarios over clients and servers.

One server at a time, since each needs memory and a processor; on it, cells of all clients at
once, since almost all of a cell's time is waiting. Slow scenarios start first.
"""

import functools
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import trio

from lanemq.local import append_file, copy_file, make_directories
from lanemq.wire import show_text

from .._errors import CompatError, NotApplicable, PeersMissing
from ..cells._cell import Cell
from ..cells._facts import is_unsteady
from ..cells._scenario import Scenario
from ..clients._driver import Driver
from ..clients._families import CLIENTS, open_client
from ..peers._programs import missing_tools, peers_required
from ..scenarios import SCENARIOS
from ..servers._clusters import Cluster
from ..servers._named import SERVER_NAMES, needs_java, run_server
from ._results import CellResult, Outcome

JOBS = 24
"""Cells under way at once; more only make them wait for the processor."""
CELL_S = 300.0
"""A cell that takes longer has failed."""

OnResult = Callable[[CellResult], None]


class UnknownName(CompatError):  # noqa: N818 - reads as what happened
    """A client, server or scenario that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The choice of cells to run."""

    clients: tuple[str, ...]
    servers: tuple[str, ...]
    scenarios: tuple[str, ...]

    @classmethod
    def of(
        cls,
        *,
        clients: Sequence[str] = (),
        servers: Sequence[str] = (),
        scenarios: Sequence[str] = (),
    ) -> "Selection":
        """Check names against the known ones; without any, return all of them."""
        return cls(
            clients=_known("client", clients, tuple(CLIENTS)),
            servers=_known("server", servers, SERVER_NAMES),
            scenarios=_known("scenario", scenarios, tuple(SCENARIOS)),
        )

    @property
    def cells_per_server(self) -> int:
        """The number of cells of each server."""
        return len(self.clients) * len(self.scenarios)


def _known(kind: str, names: Sequence[str], all_names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in all_names:
            nearest = get_close_matches(name, all_names, 1) or all_names
            raise UnknownName(f"no {kind} named {name}; did you mean {nearest[0]}?")
    return tuple(dict.fromkeys(names)) or all_names


ATTEMPTS: Final = 4
"""Runs of a cell that fails with a client that is unsteady by itself."""


class Drivers:
    """The driver processes of one server, each started when first asked for.

    A driver that died is started again for the next cell.
    """

    def __init__(self, nursery: trio.Nursery, folder: Path) -> None:
        self._nursery, self._folder = nursery, folder
        self._running: dict[str, Driver] = {}
        self._starting: dict[str, trio.Lock] = {}

    async def get(self, client: str) -> Driver:
        """Return the driver of a client.

        Raises ``NotApplicable`` where its tools are missing and nobody insists on them.
        """
        async with self._starting.setdefault(client, trio.Lock()):
            driver = self._running.get(client)
            if driver is None or driver.is_gone:
                _check_tools(client)
                driver = await self._nursery.start(self._keep, client)
                self._running[client] = driver
            return driver

    async def _keep(
        self,
        client: str,
        task_status: trio.TaskStatus[Driver] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async with open_client(client, self._folder) as driver:
            task_status.started(driver)
            await trio.sleep_forever()


def _check_tools(client: str) -> None:
    if missing := CLIENTS[client].missing():
        if peers_required():
            raise PeersMissing(missing)
        raise NotApplicable(f"not run: {missing}")


async def run_matrix(
    selection: Selection,
    *,
    jobs: int = JOBS,
    logs: Path,
    on_result: OnResult = lambda _: None,
) -> list[CellResult]:
    """Run all chosen cells, and return their results in the order of the selection.

    Logs of a server with a failed cell, and of its drivers, are kept in ``logs``.
    """
    results = []
    for server in selection.servers:
        run = functools.partial(run_server, server)
        missing = missing_tools("java") if needs_java(server) else None
        if missing:
            outcome: Outcome = "failed" if peers_required() else "not applicable"
            found = _all_cells(selection, server, outcome, f"not run: {missing}")
        else:
            try:
                async with run(logs=logs) as cluster:
                    found = await run_cells(
                        cluster, selection, jobs=jobs, logs=logs, on_result=on_result
                    )
                    if any(result.outcome == "failed" for result in found):
                        cluster.keep_logs(logs)
            except CompatError as error:
                found = _all_cells(selection, server, "failed", f"server: {error}")
        results += found
    return results


def _all_cells(
    selection: Selection, server: str, outcome: Outcome, reason: str
) -> list[CellResult]:
    return [
        CellResult(client, server, scenario, outcome, reason, 0.0)
        for client in selection.clients
        for scenario in selection.scenarios
    ]


async def run_cells(
    cluster: Cluster,
    selection: Selection,
    *,
    jobs: int = JOBS,
    logs: Path,
    on_result: OnResult = lambda _: None,
) -> list[CellResult]:
    """Run the chosen clients and scenarios on one running cluster.

    Each failure is written to ``failed.txt`` beside the drivers' logs as it happens.
    """
    scenarios = sorted(
        (SCENARIOS[name] for name in selection.scenarios), key=lambda scenario: not scenario.long
    )
    waiting = iter([(client, scenario) for scenario in scenarios for client in selection.clients])
    results: dict[tuple[str, str], CellResult] = {}
    failures = logs / cluster.name / "failed.txt"
    failures.unlink(missing_ok=True)
    async with _drivers(failures.parent) as drivers:

        async def work() -> None:
            for client, scenario in waiting:
                for _ in range(ATTEMPTS):
                    result = await _run_cell(cluster, drivers, client, scenario)
                    if result.outcome != "failed" or not is_unsteady(client):
                        break
                results[client, scenario.name] = result
                if result.outcome == "failed":
                    _note_failure(failures, result)
                on_result(result)

        async with trio.open_nursery() as nursery:
            for _ in range(jobs):
                nursery.start_soon(work)
    return [
        results[client, scenario]
        for client in selection.clients
        for scenario in selection.scenarios
    ]


@asynccontextmanager
async def _drivers(logs: Path) -> AsyncIterator[Drivers]:
    with tempfile.TemporaryDirectory(prefix="lanemq-drivers-") as name:
        folder = Path(name)
        async with trio.open_nursery() as nursery:
            yield Drivers(nursery, folder)
            nursery.cancel_scope.cancel()
        _keep_logs(folder, logs)


def _note_failure(path: Path, result: CellResult) -> None:
    make_directories(path.parent)
    at = f"{datetime.now():%H:%M:%S}"
    with append_file(path) as file:
        file.write(
            f"{at} {result.client}: {result.scenario}: {show_text(result.reason)}\n".encode()
        )


def _keep_logs(folder: Path, logs: Path) -> None:
    make_directories(logs)
    for log in folder.glob("*.log"):
        copy_file(log, logs / log.name)


async def _run_cell(
    cluster: Cluster, drivers: Drivers, client: str, scenario: Scenario
) -> CellResult:
    begun = trio.current_time()
    outcome: Outcome = "failed"
    reason = f"not done after {CELL_S:g} s"
    try:
        driver = await drivers.get(client)  # fetched and built here, which may take its time
        with trio.move_on_after(CELL_S):
            begun = trio.current_time()
            await scenario.run(Cell(scenario.name, driver, cluster, drivers.get))
            outcome, reason = "passed", ""
    except Exception as error:  # whatever a cell does, the others go on
        cause = _first(error)
        reason = str(cause) if isinstance(cause, CompatError) else repr(cause)
        if isinstance(cause, NotApplicable):
            outcome = "not applicable"
    seconds = round(trio.current_time() - begun, 3)
    return CellResult(client, cluster.name, scenario.name, outcome, reason, seconds)


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group: the rest were cancelled by it or repeat it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
