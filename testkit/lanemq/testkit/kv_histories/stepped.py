"""``python -m lanemq.testkit.kv_histories.stepped``: ``lanemq`` with a clock that a test sets.

The file ``clock`` in the working directory has the milliseconds that its clock is ahead.
"""

import os
import time
from collections.abc import Callable

CLOCK = "clock"
NUMBER_BYTES = 20


def set_clock() -> None:
    """Let the time of day of this process go by the file, from now on."""
    ahead = os.open(CLOCK, os.O_RDONLY | os.O_CREAT, 0o600)
    real: Callable[[], int] = time.time_ns

    def now_ns() -> int:
        return real() + int(os.pread(ahead, NUMBER_BYTES, 0) or b"0") * 1_000_000

    time.time_ns = now_ns
    time.time = lambda: now_ns() / 1e9


if __name__ == "__main__":
    set_clock()
    from lanemq.proxy.cli import main

    main()
