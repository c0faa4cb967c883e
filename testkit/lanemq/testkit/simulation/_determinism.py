"""The machine under a simulated run, made to follow from its seed.

A loop that measures how long it has been busy does one thing on a busy machine and another on an
idle one; the run after that is another run. So programs of a run measure by the simulated clock,
which stands still while anything runs.
"""

import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Final, TypeVar, TypeVarTuple
from unittest.mock import patch

import trio

from lanemq.proxy.gateway.kv import _upstream
from lanemq.sdk.net import _client

from ..proxy.turns import turns_measured_by
from ._processes import clock_ms

PID: Final = 4711
IP: Final = bytes((10, 0, 9, 1))
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


def _time_ns() -> int:
    return clock_ms() * 1_000_000


def _time() -> float:
    return clock_ms() / 1000


def _token_hex(size: int) -> str:
    return random.randbytes(size).hex()


async def _at_once(do: Callable[[*_Ts], _T], *given: *_Ts, limiter: object = None) -> _T:
    """Do it here: when a thread of the machine is done is not part of a run, and the simulated
    clock does not wait for it."""
    await trio.lowlevel.checkpoint()
    return do(*given)


@contextmanager
def determined_by(seed: int) -> Iterator[None]:
    """Let trio's order of tasks, its clock, threads, ``random``, process id and address follow from
    a seed.

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
        patches.enter_context(patch.object(_client, "time", SimpleNamespace(time_ns=_time_ns)))
        patches.enter_context(patch.object(_upstream, "time", SimpleNamespace(time=_time)))
        patches.enter_context(patch.object(secrets, "token_hex", _token_hex))
        patches.enter_context(patch.object(os, "getpid", lambda: PID))
        patches.enter_context(patch.object(os, "urandom", random.randbytes))
        patches.enter_context(patch.object(trio.to_thread, "run_sync", _at_once))
        yield
