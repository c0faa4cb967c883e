"""Apache's command line tools, which are run as they are."""

import tempfile
from difflib import unified_diff
from pathlib import Path

from .._errors import NotApplicable, ScenarioFailed
from ..cells._cell import Cell
from ..cells._scenario import expect_equal, scenario
from ..tools._differences import difference
from ..tools._outputs import expected, recorded, run_steps


@scenario("tool-commands", long=True)
async def tool_commands(cell: Cell) -> None:
    """Each command of an administrator's tool prints what it prints with Apache's own servers."""
    name, _, version = cell.client.partition("-")
    if name != "mqadmin":
        raise NotApplicable("the client is no tool with commands")
    server = cell.cluster.name
    if server not in ("lanemq", f"apache-{version}"):
        raise NotApplicable(f"mqadmin {version} is compared at lanemq and at Apache {version}")
    maker = server.partition("-")[0]
    with tempfile.TemporaryDirectory(prefix="lanemq-tool-") as folder:
        outputs = await run_steps(version, server, Path(folder))
    for output, wanted in zip(outputs, expected(version, maker), strict=True):
        if output.lines != wanted.lines:
            differing = unified_diff(
                wanted.lines, output.lines, "expected", "got", n=0, lineterm=""
            )
            raise ScenarioFailed("\n".join((f"output of {output.line}:", *differing)))
    for output in recorded(version, "lanemq") if maker == "lanemq" else ():
        expect_equal(f"reason for {output.line}", bool(difference(version, output.line)), True)
