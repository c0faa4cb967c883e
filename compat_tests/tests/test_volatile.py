"""Volatile columns of tables are masked in comparisons."""

import json
from pathlib import Path

from lanemq.compat.servers._volatile import without_volatile

VECTORS = Path(__file__).parents[1] / "vectors" / "frames"
PROGRESS = """\
#Group                            #Count  #Version                 #Type  #Model          #TPS     #Diff Total
staying                           1       V4_9_8                   PUSH   CLUSTERING      {}        7
gone                              0       OFFLINE                                         0        22

Consume TPS: 0.00
"""  # noqa: E501 - as mqadmin prints it


def test_a_rate_is_masked_and_nothing_else() -> None:
    one, other = (without_volatile(PROGRESS.format(rate)) for rate in (0, 3))
    assert one == other
    assert one.splitlines()[1].split()[-2:] == ["~", "7"]
    assert one.splitlines()[2].split() == ["gone", "0", "OFFLINE", "~", "22"]


def test_the_recorded_output_of_mqadmin_keeps_all_but_the_rates() -> None:
    lines = (VECTORS / "tools497bin.results.jsonl").read_text().splitlines()
    printed = [json.loads(line)["output"] for line in lines if '"output"' in line]
    changed = [text for text in printed if without_volatile(text) != "\n".join(text.splitlines())]
    assert len(changed) == 1
    before, after = changed[0].splitlines(), without_volatile(changed[0]).splitlines()
    for was, now in zip(before[1:], after[1:], strict=True):
        assert now.split() == [*was.split()[:-2], "~", was.split()[-1]]
