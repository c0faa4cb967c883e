"""Every client on every server: the whole matrix, one test for each pair.

The cells of one server all run at once when its first test asks for them; Apache's servers are
the control, so a cell that fails there fails the suite like any other.
"""

from functools import cache
from pathlib import Path

import pytest
import trio

from lanemq.compat import CLIENTS, SERVER_NAMES, CellResult, Selection, run_matrix
from lanemq.compat.servers._proxy import PROXY_SERVERS

pytestmark = [
    pytest.mark.peers,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
LOGS = Path("compat-logs")


THROUGH_PROXIES = ("java-3.2.6", "java-4.2.0", "java-4.9.7", "java-5.3.3", "go-2.1.2", "python")
"""Clients that a run of all tests has before proxies, which pass on what any client says;
``lanemq-compat run`` has all of them."""


def clients_of(server: str) -> tuple[str, ...]:
    return THROUGH_PROXIES if server in PROXY_SERVERS else tuple(CLIENTS)


@cache
def cells_of(server: str) -> list[CellResult]:
    async def run() -> list[CellResult]:
        chosen = Selection.of(servers=[server], clients=clients_of(server))
        return await run_matrix(chosen, logs=LOGS)

    return trio.run(run)


@pytest.mark.parametrize(
    ("server", "client"),
    [(server, client) for server in SERVER_NAMES for client in clients_of(server)],
)
def test_every_scenario_passes_or_does_not_apply(server: str, client: str) -> None:
    cells = [cell for cell in cells_of(server) if cell.client == client]
    failed = [f"{cell.scenario}: {cell.reason}" for cell in cells if cell.outcome == "failed"]
    assert not failed, "\n".join([f"{client} on {server}:", *failed])
    if all(cell.outcome == "not applicable" for cell in cells):
        pytest.skip(cells[0].reason)
