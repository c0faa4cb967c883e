"""Cases of a test that a usual run leaves to a run of all tests."""

from collections.abc import Sequence

import pytest


def first(count: int, cases: Sequence[object]) -> list[object]:
    """Return the cases of a parametrized test, those after the first ``count`` marked thorough.

    A case is a value, or a tuple of one for each name. ``make test`` has the first ones,
    ``make test-all`` has them all.
    """
    rest = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    return [*cases[:count], *(pytest.param(*case, marks=pytest.mark.thorough) for case in rest)]
