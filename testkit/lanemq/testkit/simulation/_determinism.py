"""The machine under a simulated run, made to follow from its seed.

A loop that measures how long it has been busy does one thing on a busy machine and another on an
idle one; the run after that is another run. So programs of a run measure by the simulated clock,
which stands still while anything runs.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

import trio

from lanemq.sdk.net import _client

from ..proxy.turns import turns_measured_by

PID: Final = 4711
IP: Final = bytes((10, 0, 9, 1))


@contextmanager
def determined_by(seed: int) -> Iterator[None]:
    """Let trio's order of tasks, its clock, ``random``, process id and address follow from a seed.

    Module-level counters and the hashes of texts are the process's: they are the same in the
    first run of a process with ``PYTHONHASHSEED=0``.
    """
    core = trio._core._run
    core._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    core._r.seed(seed)
    random.seed(seed)
    with ExitStack() as patches:
        patches.enter_context(turns_measured_by(trio.current_time))
        patches.enter_context(patch.object(_client, "local_ip", lambda towards: IP))
        patches.enter_context(patch.object(os, "getpid", lambda: PID))
        yield
