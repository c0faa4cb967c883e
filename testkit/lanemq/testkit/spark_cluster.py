"""A standalone cluster of Spark on this machine, and processes of it that are killed."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from lanemq.compat import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS: Final = 2
EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
MASTER: Final = "org.apache.spark.deploy.master.Master"
READY_S: Final = 120.0
"""A worker, or an executor, starts a JVM; several of them wait for a processor."""
LOOK_S: Final = 0.002


@contextmanager
def standalone_cluster(
    home: Path, environment: dict[str, str], folder: Path, *, workers: int = WORKERS
) -> Iterator[str]:
    """Run a master and workers of one core each; gives the URL. Workers come up meanwhile."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    own = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [[MASTER, *own, "--port", str(port)]]
    for number in range(workers):
        work = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
        commands.append([WORKER, *own, *work, url])
    script = home / "bin" / "spark-class"
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((folder / f"log-{number}").open("w+"))
            process = subprocess.Popen(
                ["bash", str(script), *command], env=environment, stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield url


@final
class Losses:
    """Kills processes of a session's cluster while jobs run, and lets new ones take their places.

    A context manager: its end ends the workers that it has started.
    """

    def __init__(self, spark: "SparkSession", master: str) -> None:
        self._context: Any = spark.sparkContext
        self._master = master
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Losses":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def during(self, work: Callable[[], None], what: str, is_time: Callable[[], bool]) -> bool:
        """Do some work, and kill an ``executor`` or a ``worker`` once ``is_time`` and a task runs.

        Returns whether that was done before the work was.
        """
        self._until_whole()
        lost = threading.Event()
        is_over = threading.Event()
        killer = threading.Thread(target=self._kill, args=(what, is_time, is_over, lost))
        killer.start()
        try:
            work()
        finally:
            is_over.set()
            killer.join()
        return lost.is_set()

    def _kill(
        self,
        what: str,
        is_time: Callable[[], bool],
        is_over: threading.Event,
        lost: threading.Event,
    ) -> None:
        while not (is_time() and self._has_tasks()):
            if is_over.wait(LOOK_S):
                return
        if what == "executor":
            (pid, *_) = _pids(EXECUTOR, str(self._context.applicationId))
            os.kill(pid, signal.SIGKILL)
        else:
            (pid, *_) = _pids(WORKER, self._master)
            command, environment = _started_as(pid)
            os.kill(pid, signal.SIGKILL)
            self._started.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        lost.set()

    def _has_tasks(self) -> bool:
        tracker = self._context.statusTracker()
        stages = (tracker.getStageInfo(one) for one in tracker.getActiveStageIds())
        return any(one is not None and one.numActiveTasks for one in stages)

    def _until_whole(self) -> None:
        """Wait until there is an executor at each worker."""
        limit_s = time.monotonic() + READY_S
        while len(_pids(EXECUTOR, str(self._context.applicationId))) < WORKERS or (
            self._context._jsc.sc().getExecutorMemoryStatus().size() <= WORKERS  # and the driver
        ):
            if time.monotonic() > limit_s:
                raise TimeoutError(f"there are no {WORKERS} executors after {READY_S:.0f} s")
            time.sleep(0.05)


def _pids(*marks: str) -> list[int]:
    """Return the Java processes whose command lines have all of the marks."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            program, *arguments = file.read_bytes().split(b"\0")
            line = b" ".join(arguments).decode(errors="replace")
            if program.endswith(b"java") and all(mark in line for mark in marks):
                found.append(int(file.parent.name))
    return sorted(found)


def _started_as(pid: int) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a process."""
    folder = Path(f"/proc/{pid}")
    command = (folder / "cmdline").read_bytes().decode().split("\0")[:-1]
    lines = (folder / "environ").read_bytes().decode().split("\0")
    return command, dict(line.split("=", 1) for line in lines if "=" in line)
