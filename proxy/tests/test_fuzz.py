"""A short run of ``make fuzz``: what it sends is the same every time."""

from pathlib import Path

import pytest

from lanemq.testkit.fuzz import run

BUSY_MS = 10_000
"""A machine that runs other tests holds up a loop, too; ``make fuzz`` insists on 100 ms."""


@pytest.mark.slow
async def test_requests_that_are_almost_right_cost_nobody_anything(tmp_path: Path) -> None:
    findings = await run(tmp_path, seed=7, seconds=20, limit_bytes=512 << 20, turn_ms=BUSY_MS)
    assert findings.wrong == []
    assert findings.requests > 100
