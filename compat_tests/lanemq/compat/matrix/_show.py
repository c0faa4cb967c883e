"""The matrix on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lanemq.wire import show_text

from ._results import CellResult, count_outcomes

REASON_MAX = 4000
MARKS = {"passed": "[green]ok[/]", "failed": "[bold red]FAILED[/]", "not applicable": "[dim]n/a[/]"}


def show_matrix(console: Console, cells: Sequence[CellResult]) -> None:
    """Print a table per server (scenarios by clients), then reasons, then the counts."""
    clients = list(dict.fromkeys(cell.client for cell in cells))
    for server in dict.fromkeys(cell.server for cell in cells):
        here = {(cell.scenario, cell.client): cell for cell in cells if cell.server == server}
        table = Table("scenario", *clients, title=f"server: {server}", title_justify="left")
        for scenario in dict.fromkeys(scenario for scenario, _ in here):
            row = [here.get((scenario, client)) for client in clients]
            table.add_row(scenario, *(MARKS[cell.outcome] if cell else "" for cell in row))
        console.print(table)
    _show_reasons(console, cells)
    counts = count_outcomes(cells)
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))


def _show_reasons(console: Console, cells: Sequence[CellResult]) -> None:
    """Print each reason once, with the cells that share it."""
    by_reason: dict[tuple[str, str], list[CellResult]] = {}
    for cell in cells:
        if cell.reason:
            by_reason.setdefault((cell.outcome, cell.reason), []).append(cell)
    for (outcome, reason), sharing in sorted(by_reason.items(), reverse=True):
        places = ", ".join(f"{c.client} on {c.server}: {c.scenario}" for c in sharing)
        text = escape(show_text(reason, REASON_MAX))
        console.print(f"{MARKS[outcome]} {escape(places)}\n    {text}", highlight=False)
