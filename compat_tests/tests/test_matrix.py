"""Every client on every server: the whole matrix, one test for each pair.

The cells of one server all run at once when its first test asks for them; Apache's servers are
the control, so a cell that fails there fails the suite like any other.
"""

from functools import cache
from pathlib import Path

import pytest
import trio

from lanemq.compat import CLIENTS, SERVER_NAMES, CellResult, Selection, run_matrix

pytestmark = [
    pytest.mark.peers,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
LOGS = Path("compat-logs")


@cache
def cells_of(server: str) -> list[CellResult]:
    async def run() -> list[CellResult]:
        return await run_matrix(Selection.of(servers=[server]), logs=LOGS)

    return trio.run(run)


@pytest.mark.parametrize("client", list(CLIENTS))
@pytest.mark.parametrize("server", SERVER_NAMES)
def test_every_scenario_passes_or_does_not_apply(server: str, client: str) -> None:
    cells = [cell for cell in cells_of(server) if cell.client == client]
    failed = [f"{cell.scenario}: {cell.reason}" for cell in cells if cell.outcome == "failed"]
    assert not failed, "\n".join([f"{client} on {server}:", *failed])
    if all(cell.outcome == "not applicable" for cell in cells):
        pytest.skip(cells[0].reason)
