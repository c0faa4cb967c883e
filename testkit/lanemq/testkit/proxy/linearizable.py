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

State = tuple[int, bytes | None] | None
"""Version and value; without a value the entry is gone, and a later one has a greater version.
None where there never was one."""
_Left = tuple[int, bool, bytes | None]
"""A state as far as answers tell it: version, whether it is that one or any from it on, value."""
NOT_KNOWN: Final = "not known"


@final
@dataclass(frozen=True, slots=True)
class Operation:
    """One call about the key, as its caller saw it.

    ``kind`` is put, get, delete, cas, txn, revoke, drop or import; ``answer`` is the version for a
    put, the version that is gone for a delete, the state for a get, whether it was done for a cas.
    A txn puts ``value`` if the version is ``version``; else it reads, and puts
    ``otherwise(value)``: its answer is the version, or the state that was read and the version. A
    revoke ends the lease under which ``value`` alone was put, so it deletes the entry if that is
    its value; its answer is None. A drop deletes the namespace: a new one knows nothing of the
    key. An import puts ``value`` with ``version``, whatever there was. Where the answer is
    ``NOT_KNOWN`` the operation may have been done at any time since, or not at all, and its end is
    infinite.
    """

    begin_s: float
    end_s: float
    kind: str
    answer: object
    value: bytes = b""
    version: int = 0
    """The version that a cas or a txn expects."""


def otherwise(value: bytes) -> bytes:
    """Return the value that a txn puts whose comparison does not hold."""
    return b"else " + value


def step(state: State, operation: Operation) -> tuple[object, State]:
    """Return the answer that an operation would have, and the state behind it.

    A new entry has the next version of its key; a store may give it a greater one.
    """
    last, value = state if state is not None else (0, None)
    version = 0 if value is None else last
    match operation.kind:
        case "get":
            return (None if value is None else (version, value)), state
        case "put":
            return last + 1, (last + 1, operation.value)
        case "delete":
            return version, state if value is None else (version, None)
        case "revoke":
            return None, (version, None) if value == operation.value else state
        case "drop":
            return None, None
        case "import":
            return None, (operation.version, operation.value)
        case "cas" if version == operation.version:
            return True, (last + 1, operation.value)
        case "cas":
            return False, state
        case "txn" if version == operation.version:
            return last + 1, (last + 1, operation.value)
        case "txn":
            read = None if value is None else (version, value)
            return (read, last + 1), (last + 1, otherwise(operation.value))
    raise AssertionError(operation.kind)


def _after(state: _Left, operation: Operation) -> list[_Left]:
    """Return the states that an operation with its answer may leave; none if it cannot be so."""
    last, is_exact, value = state
    answer, is_known = operation.answer, operation.answer != NOT_KNOWN
    match operation.kind:
        case "get":
            return _read(state, answer)
        case "put" if not is_known:
            return [(last + 1, is_exact and value is not None, operation.value)]
        case "put":
            return _put(state, answer, operation.value)
        case "delete" if value is None:
            return [state] if answer in (0, NOT_KNOWN) else []
        case "delete" if not is_known:
            return [(last, is_exact, None)]
        case "delete":
            assert isinstance(answer, int)
            fits = answer == last if is_exact else answer >= last
            return [(answer, True, None)] if fits else []
        case "revoke":
            return [(last, is_exact, None) if value == operation.value else state]
        case "drop":
            return [(0, False, None)]
        case "import":
            return [(operation.version, True, operation.value)]
        case "cas":
            return [
                after for done, after in _compared(state, operation) if answer in (NOT_KNOWN, done)
            ]
        case "txn":
            return _transacted(state, operation)
    raise AssertionError(operation.kind)


def _put(state: _Left, answer: object, put: bytes) -> list[_Left]:
    last, is_exact, value = state
    assert isinstance(answer, int)
    is_next = answer == last + 1 if is_exact and value is not None else answer > last
    return [(answer, True, put)] if is_next else []


def _transacted(state: _Left, operation: Operation) -> list[_Left]:
    answer, other = operation.answer, otherwise(operation.value)
    found: list[_Left] = []
    for holds, after in _compared(state, operation):
        if answer == NOT_KNOWN:
            last, is_exact, value = state
            found.append(after if holds else (last + 1, is_exact and value is not None, other))
        elif isinstance(answer, int):
            fits = answer == after[0] if after[1] else answer >= after[0]
            if holds and fits:
                found.append((answer, True, operation.value))
        elif not holds:
            assert isinstance(answer, tuple)
            read, version = answer
            for there in _read(state, read):
                found += _put(there, version, other)
    return found


def _read(state: _Left, answer: object) -> list[_Left]:
    last, is_exact, value = state
    if answer is None or value is None:
        return [state] if answer is None and value is None else []
    assert isinstance(answer, tuple)
    version, found = answer
    fits = found == value and (version == last if is_exact else version >= last)
    return [(version, True, value)] if fits else []


def _compared(state: _Left, operation: Operation) -> list[tuple[bool, _Left]]:
    last, is_exact, value = state
    expected = operation.version
    if value is None:
        if expected:
            return [(False, state)]
        return [(True, (last + 1, False, operation.value))]
    done: tuple[bool, _Left] = True, (expected + 1, True, operation.value)
    if is_exact:
        return [done] if expected == last else [(False, state)]
    return [(False, state), done] if expected >= last else [(False, state)]


def is_linearizable(history: Sequence[Operation], state: State = None) -> bool:
    """Return whether an order of the operations explains all answers, from ``state`` on."""
    operations = sorted(history, key=lambda operation: operation.begin_s)
    wanted = sum(1 << n for n, one in enumerate(operations) if one.answer != NOT_KNOWN)
    begun: _Left = (0, False, None) if state is None else (state[0], True, state[1])
    seen = {(0, begun)}
    left = [(0, begun)]
    while left:
        done, now = left.pop()
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
            for after in _after(now, one):
                reached = done | 1 << number, after
                if reached not in seen:
                    seen.add(reached)
                    left.append(reached)
    return False
