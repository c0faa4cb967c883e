"""Our filter and the reference's judge alike, whatever the expression and the message."""

import pytest

from lanemq.compat.peers._oracle import ask_oracle
from lanemq.compat.peers._sql_cases import cases, oracle_line
from lanemq.wire.sql92 import EvaluationError, SqlInvalid, compile_sql

pytestmark = pytest.mark.peers

NAMES = {True: "TRUE", False: "FALSE", None: "NULL"}


def judged(expression: str, properties: dict[str, str]) -> str:
    try:
        selector = compile_sql(expression)
    except SqlInvalid:
        return "INVALID"
    try:
        return NAMES[selector.evaluate(properties)]
    except EvaluationError:
        return "ERROR"


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_judgement_is_that_of_the_reference(seed: int) -> None:
    asked = list(cases(seed, 20_000))
    answers = ask_oracle("Sql92", "server-5.3.3", (oracle_line(*case) for case in asked))
    different = [
        (expression, properties, theirs, ours)
        for (expression, properties), theirs in zip(asked, answers, strict=True)
        if (ours := judged(expression, properties)) != theirs
    ]
    assert different == []
