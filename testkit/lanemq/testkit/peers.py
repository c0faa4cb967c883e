"""Tests that need other software: visibly skipped without it, a failure where it is required.

``LANEMQ_REQUIRE_PEERS=1`` requires it, and ``.ci/run`` sets that.
"""

from typing import NoReturn

import pytest

from lanemq.compat import missing_tools, peers_required


def missing(what: str, *, module: bool = False) -> NoReturn:
    """Skip the running test, or fail it; of a whole ``module`` while it is imported."""
    if peers_required():
        pytest.fail(what, pytrace=False)
    pytest.skip(what, allow_module_level=module)


def require_tools(kind: str) -> None:
    """Skip, or fail, unless the programs of ``kind`` ("java", "go", "node") are here."""
    if what := missing_tools(kind):
        missing(what)
