"""The plan of a start: the whole table, as it is printed."""

import itertools

from lanemq.storage._config import Stage
from lanemq.storage.start._plan import LastUser, StartPlan, plan_start

# last | its stage | stage asked for | use of files | files from | keys from | cut after a crash
# from | watermarks prove the log | files missed by | files may end before rows | queues go on as
# rows | rows by | rows are counted | rows are cut behind the watermark
TABLE = """
lanemq | 1 | 1 | redone | noted | noted | noted | yes | digest | - | - | - | - | -
lanemq | 1 | 2 | redone | noted | noted | noted | yes | digest | - | - | task | - | yes
lanemq | 1 | 3 | compared | noted | noted | noted | yes | digest | - | - | start | - | yes
lanemq | 2 | 1 | redone | noted | noted | noted | yes | digest | - | - | - | - | -
lanemq | 2 | 2 | redone | noted | noted | noted | yes | digest | - | - | start if little | - | -
lanemq | 2 | 3 | compared | noted | noted | noted | yes | digest | - | - | start | - | -
lanemq | 3 | 1 | redone | noted | noted | noted | yes | digest | yes | yes | - | - | -
lanemq | 3 | 2 | redone | noted | noted | noted | yes | digest | yes | yes | start if little | - | -
lanemq | 3 | 3 | skipped | noted | noted | noted | yes | digest | yes | - | start | - | -
another since | 1 | 1 | redone | index | index | later | - | groups | - | yes | - | - | -
another since | 1 | 2 | redone | index | index | later | - | groups | - | yes | task | - | yes
another since | 1 | 3 | compared | index | index | later | - | groups | - | - | start | yes | yes
another since | 2 | 1 | redone | index | index | later | - | groups | - | yes | - | - | -
another since | 2 | 2 | redone | index | index | later | - | groups | - | yes | task | - | yes
another since | 2 | 3 | compared | index | index | later | - | groups | - | - | start | yes | yes
another since | 3 | 1 | redone | noted | index | later | - | groups | yes | yes | - | - | -
another since | 3 | 2 | redone | noted | index | later | - | groups | yes | yes | task | - | yes
another since | 3 | 3 | compared | noted | index | later | - | groups | yes | - | start | yes | yes
another | - | 1 | redone | index | index | redo | - | groups | - | yes | - | - | -
another | - | 2 | redone | index | index | redo | - | groups | - | yes | task | - | yes
another | - | 3 | compared | index | index | redo | - | groups | - | - | start | yes | yes
"""


def line(last: LastUser, last_stage: Stage | None, stage: Stage, plan: StartPlan) -> str:
    def yes(value: bool) -> str:
        return "yes" if value else "-"

    cells = [
        last.value,
        str(int(last_stage)) if last_stage is not None else "-",
        str(int(stage)),
        plan.files_use.value,
        plan.files_from.value,
        plan.keys_from.value,
        plan.dropped_from.value,
        yes(plan.proves_log),
        plan.missed_by.value,
        yes(plan.files_may_lack),
        yes(plan.goes_on_as_rows),
        plan.rows_by.value,
        yes(plan.counts_rows),
        yes(plan.cuts_rows),
    ]
    return " | ".join(cells)


def rows() -> list[str]:
    return [
        line(last, last_stage, stage, plan_start(last, last_stage, stage))
        for last, stages in (
            (LastUser.OURS, tuple(Stage)),
            (LastUser.OTHER_SINCE, tuple(Stage)),
            (LastUser.OTHER, (None,)),
        )
        for last_stage, stage in itertools.product(stages, Stage)
    ]


def test_the_table() -> None:
    assert rows() == TABLE.strip().splitlines()
