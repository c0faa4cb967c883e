"""Writes docs/compatibility.md from the recorded reports in compat_tests/reports.

Each is of one server: ``lanemq-compat run --servers NAME --report compat_tests/reports/NAME.json``.
With ``--check`` nothing is written, and the exit status is 1 where the page says something else.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from lanemq.compat.matrix._results import CellResult, Report, count_outcomes, decode_report
from lanemq.compat.peers._drivers import MQADMIN_VERSIONS
from lanemq.compat.scenarios import SCENARIOS
from lanemq.compat.servers._named import SERVER_NAMES
from lanemq.compat.tools._differences import difference
from lanemq.compat.tools._outputs import Output, recorded

ROOT: Final = Path(__file__).parents[2]
REPORTS: Final = ROOT / "compat_tests" / "reports"
PAGE: Final = ROOT / "docs" / "compatibility.md"
TOOL: Final = "mqadmin-"
TOOL_SCENARIO: Final = "tool-commands"
PASSED: Final = "yes"
NOT_APPLICABLE: Final = "n/a"

HEAD: Final = """\
# Compatibility

What was run with real clients and real servers, and what came of it. This page is written by \
`compat_tests/tools/write_compatibility.py` from the reports in `compat_tests/reports`, which \
`lanemq-compat run` made; nothing in it is typed by hand. Apache's servers are the control: a \
scenario that fails there is wrong. How lanemq and Apache's software differ on purpose is in \
[Together with Apache](interop.md).
"""


@final
@dataclass(frozen=True, slots=True)
class Found:
    """All cells, and where they are from."""

    reports: tuple[Report, ...]
    """One for each server, in the order of the harness."""
    cells: tuple[CellResult, ...]

    @property
    def servers(self) -> list[str]:
        """The servers that were run."""
        return list(dict.fromkeys(cell.server for cell in self.cells))

    @property
    def clients(self) -> list[str]:
        """The clients that were run, without the administrators' tools."""
        names = dict.fromkeys(cell.client for cell in self.cells)
        return [name for name in names if not name.startswith(TOOL)]


def read_reports(folder: Path = REPORTS) -> Found:
    """Read the recorded reports. Raises ``ValueError`` where two have the same server."""
    reports = [decode_report(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    reports.sort(key=lambda report: SERVER_NAMES.index(report.cells[0].server))
    servers = [server for one in reports for server in {cell.server for cell in one.cells}]
    if len(set(servers)) < len(servers):
        raise ValueError(f"a server has two reports: {servers}")
    return Found(tuple(reports), tuple(cell for one in reports for cell in one.cells))


def page(found: Found) -> str:
    """Return the page."""
    parts = (HEAD, runs(found), clients(found), scenarios(found), failures(found), reasons(found))
    return "".join((*parts, *(commands(version, found) for version in MQADMIN_VERSIONS)))


def runs(found: Found) -> str:
    """Return the table of what was run, and when."""
    rows = []
    for report in found.reports:
        counts = count_outcomes(report.cells)
        begun = f"{report.begun:%Y-%m-%d %H:%M} UTC"
        names = dict.fromkeys(cell.server for cell in report.cells)
        rows.append((*names, begun, report.lanemq, *map(str, counts.values())))
    heads = ("server", "begun", "lanemq", "passed", "failed", "not applicable")
    left = [server for server in SERVER_NAMES if server not in found.servers]
    return (
        "\n## Runs\n\n"
        "A cell is one scenario with one client at one server.\n\n"
        + table(heads, rows)
        + (f"\nNot recorded: {', '.join(f'`{name}`' for name in left)}.\n" if left else "")
    )


def clients(found: Found) -> str:
    """Return the table of clients by servers: how many scenarios passed of those that apply."""
    rows = []
    for client in found.clients:
        row = [f"`{client}`"]
        for server in found.servers:
            cells = [one for one in found.cells if (one.client, one.server) == (client, server)]
            counts = count_outcomes(cells)
            apply = counts["passed"] + counts["failed"]
            row.append(f"{counts['passed']} of {apply}")
        rows.append(row)
    text = (
        "\n## Clients\n\n"
        "Scenarios that passed, of those that apply to the client. `java-5.0.0-PREVIEW` is the"
        " release with logical queues, `python` is lanemq's SDK.\n\n"
    )
    return text + table(("client", *(f"`{name}`" for name in found.servers)), rows)


def scenarios(found: Found) -> str:
    """Return the table of scenarios by clients, over all servers."""
    rows = []
    for name, scenario in SCENARIOS.items():
        cells = [one for one in found.cells if one.scenario == name]
        marks = [mark([one for one in cells if one.client == client]) for client in found.clients]
        if name != TOOL_SCENARIO:
            rows.append((f"`{name}`: {escaped(scenario.title)}", *marks))
    text = (
        "\n## Scenarios\n\n"
        f"`{PASSED}`: passes at every server above. `{NOT_APPLICABLE}`: does not apply, for a"
        " reason below. Numbers: passes at so many of the servers, and does not apply at the"
        " others.\n\n"
    )
    return text + table(("scenario", *(f"`{client}`" for client in found.clients)), rows)


def mark(cells: Sequence[CellResult]) -> str:
    """Return the mark of one scenario with one client at all servers."""
    counts = count_outcomes(cells)
    if counts["failed"]:
        return f"failed at {counts['failed']}"
    if not counts["not applicable"]:
        return PASSED if cells else ""
    return f"{counts['passed']} of {len(cells)}" if counts["passed"] else NOT_APPLICABLE


def failures(found: Found) -> str:
    """Return the list of cells that failed; nothing if there are none."""
    failed = [cell for cell in found.cells if cell.outcome == "failed"]
    if not failed:
        return "\nNo cell failed.\n"
    rows = [
        (f"`{one.server}`", f"`{one.client}`", f"`{one.scenario}`", escaped(one.reason))
        for one in failed
    ]
    return "\n## Failed\n\n" + table(("server", "client", "scenario", "what"), rows)


def reasons(found: Found) -> str:
    """Return why cells do not apply: each reason once, with its clients and scenarios."""
    by_reason: dict[str, list[CellResult]] = {}
    for cell in found.cells:
        is_tool = cell.client.startswith(TOOL) or cell.scenario == TOOL_SCENARIO
        if cell.outcome == "not applicable" and not is_tool:
            by_reason.setdefault(cell.reason, []).append(cell)
    rows = []
    for reason, cells in by_reason.items():
        at = list(dict.fromkeys(cell.server for cell in cells))
        where = "all" if at == found.servers else names(at)
        rows.append(
            (
                names(dict.fromkeys(cell.client for cell in cells)),
                names(dict.fromkeys(cell.scenario for cell in cells)),
                where,
                escaped(reason),
            )
        )
    return "\n## What does not apply\n\n" + table(("clients", "scenarios", "servers", "why"), rows)


def commands(version: str, found: Found) -> str:
    """Return what lanemq makes a release of mqadmin print otherwise than Apache's servers do."""
    every, own = recorded(version, "apache"), recorded(version, "lanemq")
    rows: dict[tuple[str, str], None] = {}
    for output in own:
        line = output.line.partition(" #")[0]
        rows[code(line), escaped(difference(version, line) or "")] = None
    ran = [
        f"{one.outcome} at `{one.server}`"
        for one in found.cells
        if one.client == TOOL + version
        and one.scenario == TOOL_SCENARIO
        and one.outcome != "not applicable"
    ]
    return (
        f"\n## mqadmin {version}\n\n"
        f"{len(commands_of(every))} commands in {len(every)} lines, each at Apache {version} and at"
        f" lanemq (the scenario `{TOOL_SCENARIO}`: {', '.join(ran) or 'not recorded'})."
        f" {len(every) - len(own)} lines print the same, what is measured apart, and these do"
        " not:\n\n" + table(("command", "why"), rows)
    )


def commands_of(outputs: Iterable[Output]) -> set[str]:
    """Return the names of the commands in lines."""
    return {output.line.split()[0] for output in outputs}


def names(values: Iterable[str]) -> str:
    """Return names as a list in code."""
    return ", ".join(f"`{value}`" for value in values)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = (heads, ["---"] * len(heads), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """Return a text as code for a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def escaped(text: str) -> str:
    """Return a text for a cell of a table: one line, and nothing that is markup."""
    for character in "\\|*_<>[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def main(arguments: Sequence[str]) -> int:
    """Write or check the page; returns the exit status."""
    text = page(read_reports())
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not what the reports say: run {Path(__file__).name}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
