"""The report of a run as a file, for machines or for people."""

from pathlib import Path

from msgspec.structs import replace

from lanemq.local import write_file

from ..clients._families import CLIENTS
from ..scenarios import SCENARIOS
from ._results import Report, decode_report, encode_report


def write_report(path: Path, report: Report) -> None:
    """Write the report; a path that ends in ``.html`` gets a page for people."""
    if path.suffix == ".html":
        from ._html import render_html  # needs jinja2, which only this report does

        write_file(path, render_html(report.cells).encode())
    else:
        write_file(path, encode_report(report))


def added_to(path: Path, report: Report) -> Report:
    """Return the report in ``path``, which is of a whole run of one server, with the cells of
    ``report`` in place of its own, in the order of a whole run.

    Raises ``OSError`` and ``msgspec.MsgspecError`` for a file that is no report.
    """
    old = decode_report(path.read_bytes())
    cells = {(cell.client, cell.scenario): cell for cell in [*old.cells, *report.cells]}
    order = [(client, scenario) for client in CLIENTS for scenario in SCENARIOS]
    return replace(old, cells=[cells[place] for place in order if place in cells])
