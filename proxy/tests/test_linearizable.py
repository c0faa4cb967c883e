"""The checker of histories, on histories that are known to be good or bad."""

import math
import random

import pytest

from lanemq.testkit.proxy.linearizable import (
    NOT_KNOWN,
    Operation,
    State,
    is_linearizable,
    step,
)


def op(begin_s: float, end_s: float, kind: str, answer: object, **named: object) -> Operation:
    return Operation(begin_s, end_s, kind, answer, **named)  # type: ignore[arg-type]


GOOD = {
    "one after another": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "get", (1, b"a")),
        op(4, 5, "cas", True, value=b"b", version=1),
        op(6, 7, "delete", 2),
        op(8, 9, "get", None),
    ],
    "a read beside a write may see either": [
        op(0, 10, "put", 1, value=b"a"),
        op(1, 2, "get", None),
        op(3, 4, "get", (1, b"a")),
    ],
    "of two that compare the same one wins": [
        op(0, 5, "cas", True, value=b"a", version=0),
        op(0, 5, "cas", False, value=b"b", version=0),
    ],
    "a lost answer may have been done, late": [
        op(0, math.inf, "put", NOT_KNOWN, value=b"a"),
        op(1, 2, "get", None),
        op(3, 4, "get", (1, b"a")),
    ],
    "or never": [op(0, math.inf, "put", NOT_KNOWN, value=b"a"), op(1, 2, "get", None)],
}
BAD = {
    "a read that is too old": [op(0, 1, "put", 1, value=b"a"), op(2, 3, "get", None)],
    "a read that goes back": [
        op(0, 10, "put", 1, value=b"a"),
        op(1, 2, "get", (1, b"a")),
        op(3, 4, "get", None),
    ],
    "two win the same comparison": [
        op(0, 5, "cas", True, value=b"a", version=0),
        op(0, 5, "cas", True, value=b"b", version=0),
    ],
    "a lost write": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "put", 1, value=b"b"),
    ],
    "a write that was done twice": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "put", 3, value=b"b"),
    ],
    "a value that nobody wrote": [op(0, 1, "put", 1, value=b"a"), op(2, 3, "get", (1, b"b"))],
    "a lost answer that was undone again": [
        op(0, math.inf, "put", NOT_KNOWN, value=b"a"),
        op(1, 2, "get", (1, b"a")),
        op(3, 4, "get", None),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_histories_are_explained(name: str) -> None:
    assert is_linearizable(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_are_not(name: str) -> None:
    assert not is_linearizable(BAD[name])


@pytest.mark.parametrize("seed", range(20))
def test_what_one_state_answered_is_explained_and_not_with_one_answer_changed(seed: int) -> None:
    rng = random.Random(seed)
    state: State = None
    history: list[Operation] = []
    for number in range(60):
        kind = rng.choice(("put", "get", "delete", "cas"))
        at_s = number + rng.random()
        asked = Operation(
            at_s - rng.uniform(0, 3),
            at_s + rng.uniform(0, 3),
            kind,
            None,
            b"%d" % number,
            rng.randrange(3),
        )
        answer, state = step(state, asked)
        history.append(
            Operation(asked.begin_s, asked.end_s, kind, answer, asked.value, asked.version)
        )
    assert is_linearizable(history)
    gets = [number for number, one in enumerate(history) if one.kind == "get"]
    changed = rng.choice(gets)
    one = history[changed]
    history[changed] = Operation(one.begin_s, one.end_s, "get", (99, b"nobody wrote it"))
    assert not is_linearizable(history)
