"""A store in files does without the RocksDB binding."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("part", ["lanemq.storage", "lanemq.testing", "lanemq.compat"])
def test_what_comes_without_extras_is_imported_without_them(part: str) -> None:
    code = (
        "import sys\n"
        "for extra in ('rocksdict', 'click', 'rich', 'jinja2'): sys.modules[extra] = None\n"
        f"import {part}"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
