"""The report of a run as a file, for machines or for people."""

from collections.abc import Sequence
from pathlib import Path

from ._results import CellResult, encode_report


def write_report(path: Path, cells: Sequence[CellResult]) -> None:
    """Write the report; a path that ends in ``.html`` gets a page for people."""
    if path.suffix == ".html":
        from ._html import render_html  # needs jinja2, which only this report does

        path.write_text(render_html(cells), encoding="utf-8")
    else:
        path.write_bytes(encode_report(cells))
