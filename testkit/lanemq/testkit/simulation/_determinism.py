"""The machine under a simulated run, made to follow from its seed.

A loop that measures how long it has been busy does one thing on a busy machine and another on an
idle one; the run after that is another run. So programs of a run measure by the simulated clock,
which stands still while anything runs.
"""

import math
import os
import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Final, TypeVar, TypeVarTuple
from unittest.mock import patch

import trio
from trio.testing import MockClock

from lanemq.proxy.gateway.kv import _upstream
from lanemq.sdk.net import _client

from ..proxy.turns import turns_measured_by
from ._processes import clock_ms
from ._sockets import bare_sockets
from ._wakes import sleep, sleep_until

PID: Final = 4711
IP: Final = bytes((10, 0, 9, 1))
_CORE: Final[Any] = trio._core._run
_get_events: Final = _CORE.TheIOManager.get_events
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


def simulated_clock() -> MockClock:
    """Return a clock that jumps to the next deadline when all tasks wait.

    The mock clock of trio looks at the machine's for each reading, and makes statistics of the loop
    for each jump: a tenth of a run.
    """
    clock = MockClock(autojump_threshold=0)

    def current_time() -> float:
        return clock._virtual_base

    def jump_to_next_deadline() -> None:
        span_s = _CORE.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline() - current_time()
        if 0 < span_s < math.inf:
            clock.jump(span_s)

    clock.current_time = current_time  # type: ignore[method-assign]
    clock._autojump = jump_to_next_deadline  # type: ignore[method-assign]
    return clock


def _events(manager: object, timeout: float) -> object:
    """Look at the machine's sockets only when all tasks wait: a run has none of its own."""
    has_runnable = _CORE.GLOBAL_RUN_CONTEXT.runner.runq
    return [] if has_runnable else _get_events(manager, timeout)


class _Instruments(dict[str, Any]):
    """The loop's instruments by hook, as trio has them: it looks for some several times in each
    step of a task, which is slow in a ``UserDict``."""

    def __init__(self, incoming: Sequence[trio.abc.Instrument]) -> None:
        super().__init__({"_all": {}})
        self.data = self
        for instrument in incoming:
            self.add_instrument(instrument)

    add_instrument = _CORE.Instruments.add_instrument
    remove_instrument = _CORE.Instruments.remove_instrument
    call = _CORE.Instruments.call


@contextmanager
def determined_by(seed: int) -> Iterator[None]:
    """Let trio's order of tasks, its clock, threads, ``random``, process id and address follow from
    a seed.

    Module-level counters and the hashes of texts are the process's: they are the same in the
    first run of a process with ``PYTHONHASHSEED=0``.
    """
    _CORE._ALLOW_DETERMINISTIC_SCHEDULING = True
    _CORE._r.seed(seed)
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
        patches.enter_context(patch.object(_CORE.TheIOManager, "get_events", _events))
        patches.enter_context(patch.object(trio, "sleep", sleep))
        patches.enter_context(patch.object(trio, "sleep_until", sleep_until))
        patches.enter_context(patch.object(_CORE, "Instruments", _Instruments))
        patches.enter_context(bare_sockets())
        yield
