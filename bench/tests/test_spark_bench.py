"""The bench of Spark measures what it says it does, on a small store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lanemq.testkit.spark import require_java, require_packages

require_packages()

from lanemq.bench.spark._spark import RATIOS  # noqa: E402


@pytest.mark.slow
@pytest.mark.peers
def test_each_measure_has_a_rate_and_ratios_are_of_medians(tmp_path: Path) -> None:
    require_java()
    command = [str(Path(sys.executable).with_name("lanemq")), "bench", "spark", "--json"]
    command += ["--messages", "3000", "--rounds", "1", "--folder", str(tmp_path)]
    # What a JVM would compile thoroughly here, it would compile in vain.
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    names = {name for pair in RATIOS.values() for name in pair}
    assert (set(result["samples"]), result["missing"]) == (names, {})
    assert all(len(rates) == 1 and rates[0] > 0 for rates in result["samples"].values())
    for ratio, (one, two) in RATIOS.items():
        expected = result["samples"][one][0] / result["samples"][two][0]
        assert result["ratios"][ratio] == pytest.approx(expected, abs=0.001)
    assert list(tmp_path.iterdir()) == []
