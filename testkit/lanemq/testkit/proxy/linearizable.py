"""Linearizability of histories of one key: the search for an order that explains every answer.

The search is Wing and Gong's with Lowe's memory: of the operations that may be next (those that
began before any that is left had ended) one is tried after another, and a set of operations
done with a state that was reached before is not tried again. Keys are independent of each other,
so a history of many keys is as good as each of its parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

State = tuple[int, bytes] | None
"""Version and value; None where there is no entry."""
NOT_KNOWN: Final = "not known"


@final
@dataclass(frozen=True, slots=True)
class Operation:
    """One call about the key, as its caller saw it.

    ``kind`` is put, get, delete or cas; ``answer`` is the version for a put, the version that is
    gone for a delete, the state for a get, whether it was done for a cas. Where it is
    ``NOT_KNOWN`` the operation may have been done at any time since, or not at all, and its end
    is infinite.
    """

    begin_s: float
    end_s: float
    kind: str
    answer: object
    value: bytes = b""
    version: int = 0
    """The version that a cas expects."""


def step(state: State, operation: Operation) -> tuple[object, State]:
    """Return the answer that an operation would have, and the state behind it."""
    version = state[0] if state is not None else 0
    match operation.kind:
        case "get":
            return state, state
        case "put":
            return version + 1, (version + 1, operation.value)
        case "delete":
            return version, None
        case "cas" if version == operation.version:
            return True, (version + 1, operation.value)
        case "cas":
            return False, state
    raise AssertionError(operation.kind)


def is_linearizable(history: Sequence[Operation], state: State = None) -> bool:
    """Return whether an order of the operations explains all answers, from ``state`` on."""
    operations = sorted(history, key=lambda operation: operation.begin_s)
    wanted = sum(1 << n for n, one in enumerate(operations) if one.answer != NOT_KNOWN)
    seen = {(0, state)}
    left = [(0, state)]
    while left:
        done, state = left.pop()
        if done & wanted == wanted:
            return True
        first_end_s = math.inf
        for number, one in enumerate(operations):
            if one.begin_s > first_end_s:
                break
            if not done >> number & 1:
                first_end_s = min(first_end_s, one.end_s)
        for number, one in enumerate(operations):
            if one.begin_s > first_end_s:
                break
            if done >> number & 1:
                continue
            answer, after = step(state, one)
            if one.answer not in (NOT_KNOWN, answer):
                continue
            reached = done | 1 << number, after
            if reached not in seen:
                seen.add(reached)
                left.append(reached)
    return False
