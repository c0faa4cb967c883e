"""Random histories of a store: nothing readable becomes unreadable without a word.

With brokers of Apache among those who open it: ``compat_tests/tests/test_histories.py``.
"""

import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.testkit.storage.histories import History

STEPS = 6


def replay(seed: int) -> None:
    """Run the history of a seed; a failure says what had happened."""
    with tempfile.TemporaryDirectory() as folder:
        history = History.of_seed(seed, Path(folder))
        try:
            trio.run(history.run, STEPS)
        except BaseException as error:
            error.add_note(f"seed {seed}: {'; '.join(history.did)}")
            raise


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_nothing_readable_becomes_unreadable_without_a_word(seed: int) -> None:
    replay(seed)
