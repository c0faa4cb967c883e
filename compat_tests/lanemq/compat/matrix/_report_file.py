"""The report of a run as a file, for machines or for people."""

from pathlib import Path

from lanemq.local import write_file

from ._results import Report, encode_report


def write_report(path: Path, report: Report) -> None:
    """Write the report; a path that ends in ``.html`` gets a page for people."""
    if path.suffix == ".html":
        from ._html import render_html  # needs jinja2, which only this report does

        write_file(path, render_html(report.cells).encode())
    else:
        write_file(path, encode_report(report))
