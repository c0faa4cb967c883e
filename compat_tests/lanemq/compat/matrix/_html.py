"""The report as one HTML page."""

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from lanemq.wire import show_text

from ._results import CellResult, count_outcomes


def render_html(cells: Sequence[CellResult]) -> str:
    """Return a page with one table per server: scenarios by clients."""
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["shown"] = show_text
    template = files("lanemq.compat").joinpath("report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        servers=list(dict.fromkeys(cell.server for cell in cells)),
        clients=list(dict.fromkeys(cell.client for cell in cells)),
        scenarios=list(dict.fromkeys(cell.scenario for cell in cells)),
        by_place={(cell.server, cell.client, cell.scenario): cell for cell in cells},
        counts=count_outcomes(cells),
    )
