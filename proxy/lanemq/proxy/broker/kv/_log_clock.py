"""The times of the logs of partitions, by which entries expire, under a clock that may be set.

The time of a log goes with the machine's clock as long as that goes with the monotonic clock. A
step of the machine's clock changes the distance between the two, not the log's time: nothing
expires earlier for it, and nothing stays for the length of the step. Each record tells its log's
time where that is not the time of its storing, so a redo makes the same state, and the distance
survives a restart.

A log that is ahead runs slower until it is not. One that is behind leaps once no entry can expire:
if it ran faster, a lock could be free before its holder knows.
"""

from collections.abc import Callable
from typing import Final, final

from lanemq.local import get_logger
from lanemq.storage import KvStates
from lanemq.storage.kv import KvState

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
STEP_MS: Final = 200
"""Milliseconds between the two clocks, from one look to the next, that are a step."""
SLOWER: Final = 0.1
"""The part of the time that passes which a log that is ahead leaves out."""


@final
class LogClock:
    """The distances of the logs' times from the machine's clock, in milliseconds.

    ``look`` is called before each write, and several times a second.
    """

    def __init__(
        self, states: KvStates, *, now_ms: Callable[[], int], now_s: Callable[[], float]
    ) -> None:
        """``now_ms`` is the machine's clock, ``now_s`` a monotonic one."""
        self._states = states
        self._now_ms = now_ms
        self._now_s = now_s
        self._ahead_ms: dict[str, float] = {}
        self._seen: dict[str, KvState] = {}
        self._last_ms, self._last_s = now_ms(), now_s()
        self._is_apart = False
        self.steps = 0
        """Number of steps that were noticed."""

    def follow(self) -> None:
        """Take what the machine's clock shows for time that has passed, and not for a step."""
        self._last_ms, self._last_s = self._now_ms(), self._now_s()

    def look(self) -> None:
        """Notice a step, and bring the logs' times nearer to the machine's clock."""
        now_ms, now_s = self._now_ms(), self._now_s()
        passed_ms = max(0.0, (now_s - self._last_s) * 1000)
        step_ms = (now_ms - self._last_ms) - passed_ms
        if abs(step_ms) < STEP_MS:
            step_ms = 0.0  # it is followed: clocks are set by a little all the time
        self._last_ms, self._last_s = now_ms, now_s
        if not (step_ms or self._is_apart or len(self._seen) != len(self._states.states)):
            return  # mostly
        if step_ms:
            self.steps += 1
            LOGGER.warning(
                "the clock was set by %+.1f s: entries with a ttl expire as if it had not been",
                step_ms / 1000,
            )
        for name, state in self._states.states.items():
            ahead_ms = self._distance(name, state, now_ms - step_ms) - step_ms
            if ahead_ms > 0:
                ahead_ms = max(0.0, ahead_ms - SLOWER * passed_ms)
            elif ahead_ms < 0 and not state.meta.next_expiry_ms:
                ahead_ms = 0.0
            self._ahead_ms[name] = ahead_ms
        for name in self._ahead_ms.keys() - self._states.states.keys():
            del self._ahead_ms[name], self._seen[name]
        self._is_apart = any(self._ahead_ms.values())

    def ahead_ms(self, name: str) -> int:
        """Return how far a partition's log is ahead of the machine's clock; negative for behind."""
        self.look()
        state = self._states.states[name]
        ahead_ms = self._distance(name, state, self._last_ms)
        return round(ahead_ms)

    def time_ms(self, name: str) -> int | None:
        """Return the log's time for a record that is written now; None for that of its storing."""
        ahead_ms = self.ahead_ms(name)
        return self._last_ms + ahead_ms if ahead_ms else None

    def _distance(self, name: str, state: KvState, now_ms: float) -> float:
        """Return the distance, which for a state that has just come is that of its last record.

        The time since that record is taken to have passed: what a clock shows at a start is all
        that is known.
        """
        if self._seen.get(name) is state:
            return self._ahead_ms[name]
        log = self._states.logs[name]
        begin, end = log.bounds()
        stored_ms, clock_ms = now_ms, state.meta.clock_ms
        records = log.read(end - 1, 1) if begin < end else []
        if records and records[0].time_ms:
            clock_ms = max(clock_ms, records[0].time_ms)
            stored_ms = min(now_ms, records[0].stored_ms)
            ahead_ms = float(clock_ms - stored_ms)
        else:
            ahead_ms = max(0.0, clock_ms - now_ms)
        if abs(ahead_ms) < STEP_MS:
            ahead_ms = 0.0
        else:
            LOGGER.warning(
                "the log of namespace %s is %+.1f s from the clock: entries with a ttl expire by "
                "the log",
                name,
                ahead_ms / 1000,
            )
        self._seen[name], self._ahead_ms[name] = state, ahead_ms
        self._is_apart = self._is_apart or bool(ahead_ms)
        return ahead_ms
