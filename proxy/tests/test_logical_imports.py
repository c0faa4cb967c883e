"""Parts of a broker can be asked for in any order: a test file runs by itself, too."""

import subprocess
import sys

import pytest

MODULES = (
    "migration._migrate",
    "migration._reconcile",
    "migration._superseded_messages",
    "state._metrics",
    "traffic._delivery",
)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.slow
def test_a_part_of_a_broker_can_be_the_first_that_is_imported(module: str) -> None:
    command = [sys.executable, "-c", f"import lanemq.proxy.broker.logical.{module}"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
