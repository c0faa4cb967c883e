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
    "a version after an absence is any greater one": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "delete", 1),
        op(4, 5, "put", 5, value=b"b"),
        op(6, 7, "cas", True, value=b"c", version=5),
        op(8, 9, "get", (6, b"c")),
    ],
    "also where the answer was lost": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "delete", 1),
        op(4, math.inf, "put", NOT_KNOWN, value=b"b"),
        op(6, 7, "cas", False, value=b"c", version=2),
        op(8, 9, "get", (5, b"b")),
    ],
    "a transaction does one of two things": [
        op(0, 1, "txn", 1, value=b"a", version=0),
        op(2, 3, "txn", ((1, b"a"), 2), value=b"b", version=0),
        op(4, 5, "get", (2, b"else b")),
    ],
    "a transaction whose answer was lost may have done either": [
        op(0, 9, "put", 1, value=b"a"),
        op(0, math.inf, "txn", NOT_KNOWN, value=b"b", version=1),
        op(10, 11, "get", (2, b"b")),
    ],
    "a namespace that is deleted and made again begins as if it were the first": [
        op(0, 1, "put", 7, value=b"a"),
        op(2, 5, "drop", None),
        op(3, 4, "get", None),
        op(6, 7, "put", 1, value=b"b"),
    ],
    "an import goes on with the versions of its snapshot": [
        op(0, 1, "put", 7, value=b"a"),
        op(2, 5, "import", "", value=b"b", version=3),
        op(3, 4, "get", (7, b"a")),
        op(6, 7, "get", (3, b"b")),
    ],
    "or never": [op(0, math.inf, "put", NOT_KNOWN, value=b"a"), op(1, 2, "get", None)],
}
BAD = {
    "an entry of a deleted namespace": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "drop", None),
        op(4, 5, "get", (1, b"a")),
    ],
    "what was there before an import": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "import", "", value=b"b", version=3),
        op(4, 5, "get", (1, b"a")),
    ],
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
    "a transaction that did the other thing": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "txn", ((1, b"a"), 2), value=b"b", version=1),
    ],
    "a transaction whose read was not at its moment": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "put", 2, value=b"b"),
        op(4, 5, "txn", ((1, b"a"), 3), value=b"c", version=0),
    ],
    "a transaction that was done twice": [
        op(0, 1, "txn", 1, value=b"a", version=0),
        op(2, 3, "get", (2, b"else a")),
    ],
    "a write that was done twice": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "put", 3, value=b"b"),
    ],
    "a version that comes again": [
        op(0, 1, "put", 1, value=b"a"),
        op(2, 3, "delete", 1),
        op(4, 5, "put", 1, value=b"b"),
    ],
    "a comparison with a version that comes again": [
        op(0, 1, "put", 4, value=b"a"),
        op(2, 3, "delete", 4),
        op(4, math.inf, "put", NOT_KNOWN, value=b"b"),
        op(6, 7, "cas", True, value=b"late", version=4),
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
        kind = rng.choice(("put", "get", "delete", "cas", "txn"))
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
