"""The settings of Hypothesis in all test runs, loaded by pytest: no verdict depends on chance.

How long a machine takes to make or run an example says nothing about lanemq, and on a busy
machine both limits of Hypothesis are passed now and then. The examples of a test follow from its
source, so that two runs of one revision agree; ``LANEMQ_TESTS=explore`` tries others each time.
``LANEMQ_TESTS=quick``, as in ``make test-fast``, tries a tenth of the examples, and
``LANEMQ_TESTS=some``, as in ``make test``, a quarter; ``make test-all`` tries all.
"""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

EXPLORE: Final = os.environ.get("LANEMQ_TESTS") == "explore"
SHARE: Final = {"quick": 10, "some": 4}.get(os.environ.get("LANEMQ_TESTS", ""), 1)
"""Of so many examples one is tried."""
_SETTINGS: Final = "_hypothesis_internal_use_settings"

settings.register_profile(
    "lanemq",
    deadline=None,
    derandomize=not EXPLORE,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("lanemq")


def fewer(one: settings) -> settings:
    """Return the settings of this run, where those of a run of all tests are ``one``."""
    return settings(one, max_examples=max(3, one.max_examples // SHARE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let property tests try fewer examples where not all are asked for."""
    if SHARE == 1:
        return
    done: set[object] = set()
    for item in items:
        function = getattr(item, "obj", None)
        function = getattr(function, "__func__", function)
        case = getattr(item, "cls", None)
        for holder, name in ((function, _SETTINGS), (case, "settings")):
            found = getattr(holder, name, None)
            if isinstance(found, settings) and holder not in done:
                done.add(holder)
                setattr(holder, name, fewer(found))
