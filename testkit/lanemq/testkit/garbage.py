"""Keeps the objects that exist before the first test out of garbage collection, loaded by pytest.

While pytest imports and collects thousands of tests nothing becomes garbage, and every full
collection would look at all of them: a quarter of the time before the first test.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile, and never look at what was collected again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
