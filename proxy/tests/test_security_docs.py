"""Pages about requests: the rights of each, as they are declared, and how to add one."""

import re
import subprocess
import sys
from pathlib import Path

from lanemq.wire.requests import REQUESTS, Port

ROOT = Path(__file__).parents[2]


def test_the_table_of_rights_is_the_declarations() -> None:
    command = [sys.executable, str(ROOT / "tools" / "write_rights.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


def test_the_recipe_for_a_request_code_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "tour.md").read_text()
    recipe = page.split("## How to add a request code\n")[1].split("\n## ")[0]
    named = re.findall(r"`((?:wire|proxy|sdk|testkit|compat_tests|tools|docs)/[\w/.]+)`", recipe)
    named += re.findall(r"`python ([\w/.]+)`", recipe)
    assert len(named) >= 18
    for name in named:  # paths of modules leave the middle out
        part, _, inside = name.partition("/")
        assert (ROOT / name).exists() or (ROOT / part / "lanemq" / part / inside).exists(), name


def test_every_request_that_accounts_are_checked_for_is_in_the_table() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| [A-Z_0-9]+ \((\d+)\) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    named = {int(code) for code, account, user in rows if account.strip() and user.strip()}
    assert named == {
        code for code, spec in REQUESTS.items() if {Port.BROKER, Port.LISTENER} & {*spec.ports}
    }
