"""Requirements of tests of the Spark part, and patience for their clusters."""

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk import ClientOptions, ProducerOptions
from lanemq.sdk.admin import AdminClient, queues_of

from .peers import missing

PACKAGES: Final = ("numpy", "pyarrow", "pyspark")
PATIENT: Final = ProducerOptions(
    send_timeout_s=PATIENT_S, client=ClientOptions(call_timeout_s=PATIENT_S)
)
"""Options of producers that fill topics: a busy machine fails no send, and none is sent twice."""
PATIENT_WRITES: Final = {"sendTimeoutMs": str(round(PATIENT_S * 1000))}
"""The same for Spark's writes."""


def require_packages(*more: str) -> None:
    """Skip, or fail, the tests of a module without ``lanemq[spark]``; ``more`` is of it, too."""
    if absent := [name for name in (*PACKAGES, *more) if importlib.util.find_spec(name) is None]:
        missing(
            f"lanemq[spark] needed: no {', '.join(absent)}; `make test` installs it", module=True
        )


def require_java() -> None:
    """Skip, or fail, a test without a JDK, which Spark runs on."""
    if shutil.which("java") is None:
        missing("a JDK of version 17 needed: no java on PATH")


def lake(folder: Path) -> dict[str, str]:
    """Return the environment in which ``lake`` is a catalog of Iceberg, whose tables are there."""
    own = {"TYPE": "sql", "URI": f"sqlite:///{folder}/catalog.db", "WAREHOUSE": folder.as_uri()}
    return {f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in own.items()}


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its session; return when none of them runs any more.

    Spark's Python workers are in a process group of their own, and would go on for a while.
    """
    while alive := [pid for pid, session in _sessions() if session == leader.pid]:
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)  # nobody but the leader can be waited for
    leader.wait()


def _sessions() -> Iterator[tuple[int, int]]:
    """Yield each process that runs, and its session (``man 5 proc``, ``/proc/PID/stat``)."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session, *_ = file.read_text().rpartition(")")[2].split()
            if state != "Z":
                yield int(file.parent.name), int(session)


async def until_readable(admin: AdminClient, topic: str, count: int) -> None:
    """Wait until ``count`` messages are in the queues of a topic, which all begin at 0.

    An Apache broker answers a send before its queue has the message.
    """

    async def are_there() -> bool:
        queues = queues_of(await admin.route(topic), topic)
        return sum([await admin.max_offset(*one) for one in queues]) >= count

    await until(are_there)
