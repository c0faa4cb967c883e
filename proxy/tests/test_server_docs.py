"""Each promise of docs/server.md to clients is the name of a test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = "## What a client may rely on"


def promises() -> list[str]:
    """The entries of the section's list."""
    page = (ROOT / "docs" / "server.md").read_text()
    section = page.split(f"{SECTION}\n")[1].split("\n## ")[0]
    return re.split(r"^- ", section, flags=re.M)[1:]


def test_every_promise_to_clients_names_tests_that_exist() -> None:
    existing = {
        name
        for path in ROOT.glob("*/tests/**/test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.M)
    }
    found = promises()
    assert len(found) >= 9
    for promise in found:
        named = re.findall(r"`(test_\w+)`", promise.partition("\n  Tests: ")[2])
        assert named, f"no test for: {promise[:60]}"
        assert set(named) <= existing
