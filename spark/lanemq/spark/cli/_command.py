"""Parts shared by the jobs' commands: a session, options, errors, and reports."""

import dataclasses
import importlib.util
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lanemq.local import print_json as write_json
from lanemq.local.cli import CommandFailed, advised, as_given
from lanemq.storage.cli import in_commands
from lanemq.wire import show_text

from .._errors import SourceError, TooFewQueues
from .._uris import is_table
from ._home import unpacked_home
from ._workers import watched_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..topics import Cluster

ADVICE: Final[Mapping[type[Exception], str]] = {
    TooFewQueues: "`lanemq admin updateTopic -t {target} -r {needed} -w {needed}` makes them",
}
OPTIONS: Final = {
    "broker": "--broker",
    "name": "--name",
    "offsets": "--offsets",
    "renumber": "--renumber",
    "replace": "--replace",
    "store_host": "--store-host HOST:PORT",
    "topics": "--topic",
    "with_offsets": "--offsets",
}
"""Argument of a job, as errors name it between backticks -> the option."""
LOCAL: Final = "local[*]"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit started this process, and has chosen the master."""
EXIT_FOUND: Final = 1
INTERRUPTED: Final = (
    "interrupted: the job is not done. Remove what it had begun to write, and run it again"
)
UNLIMITED: Final = 1 << 20
"""Columns of a table that goes to a file or a pipe, at most."""
MISSING_MODULE: Final = re.compile(r"No module named '?([\w.]+)")
WORKER_FAILED: Final = (
    "An exception was thrown from the Python worker",
    "[STREAM_FAILED]",
    "Job",
    "An error occurred",
)
"""Beginnings of texts of Spark whose cause stands in a later line."""
NO_PYTHON: Final = re.compile(r'Cannot run program "(.+?)"')
CAUSE: Final = re.compile(r"^(?:Caused by: )?((?:\w+\.)*\w*(?:Error|Exception): .+)$", re.MULTILINE)
"""A line of a traceback, of Python or Java, that names the error."""
Command = TypeVar("Command", bound=Callable[..., object])

master_option = click.option(
    "--master", help=f"Spark's master; {LOCAL} unless spark-submit has chosen one."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON value.")


def access_options(command: Command) -> Command:
    """Add the options that a cluster may need beside its address, for ``access_of``."""
    for option in (
        click.option("--retries", type=click.IntRange(min=0), default=3, show_default=True),
        click.option("--tls-trust-certificates", help="PEM file of authorities, on every machine."),
        click.option("--tls", is_flag=True, help="Speak TLS."),
        click.option("--security-token"),
        click.option("--secret-key", envvar="LANEMQ_SECRET_KEY"),
        click.option("--access-key", envvar="LANEMQ_ACCESS_KEY"),
    ):
        command = option(command)
    return command


def access_of(options: dict[str, Any]) -> dict[str, str]:
    """Return what ``access_options`` gave as options of the source ``rocketmq``."""
    found = {
        "accessKey": options["access_key"],
        "secretKey": options["secret_key"],
        "securityToken": options["security_token"],
        "tls": str(options["tls"]).lower(),
        "tlsTrustCertificates": options["tls_trust_certificates"],
        "retries": str(options["retries"]),
    }
    return {name: value for name, value in found.items() if value is not None}


def cluster_options(command: Command) -> Command:
    """Add the options of a command that talks to brokers, for ``cluster_of``."""
    address = click.option(
        "-n",
        "--name-server",
        envvar="NAMESRV_ADDR",
        required=True,
        help="HOST:PORT, several with ; between.  [env: NAMESRV_ADDR]",
    )
    return address(access_options(command))


def cluster_of(options: dict[str, Any]) -> "Cluster":
    """Return the cluster that ``cluster_options`` name."""
    from ..topics import Cluster

    return Cluster.named(
        options["name_server"],
        access_key=options["access_key"],
        secret_key=options["secret_key"],
        security_token=options["security_token"],
        tls=options["tls"],
        trust=options["tls_trust_certificates"],
        retries=options["retries"],
    )


@contextmanager
def session(
    job: str,
    master: str | None,
    *,
    check: bool = True,
    places: Sequence[str] = (),
    before: Sequence[Callable[[], object]] = (),
) -> Iterator["SparkSession"]:
    """Give a session, and turn its errors, and Ctrl-C, into lines for people.

    ``places``: sources and targets; what a table among them lacks here is told before Spark starts.
    ``before``: checks that need no Spark, and are made before it starts.

    ``check``: ask the executors of a cluster first whether they can run jobs at all.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise Failed("Spark is not installed: pip install 'lanemq[spark]'")
    interruption = signal.getsignal(signal.SIGINT)
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            for place in filter(is_table, places):
                _reach(place)
            for one in before:
                one()
            with unpacked_home() if _is_here(master) else nullcontext():
                opened = _opened(job, master)
                try:
                    with watched_executors(opened, check=check):
                        yield opened
                finally:
                    opened.stop()
        except SourceError as error:
            raise Failed(_as_given(advised(error, ADVICE))) from error
        except (PySparkException, Py4JError) as error:
            raise Failed(_as_given(_told(str(error)))) from error
    except KeyboardInterrupt:
        raise Failed(INTERRUPTED) from None
    finally:
        _on_interruption(interruption)
        logging.disable(logging.NOTSET)


def _as_given(text: str) -> str:
    """Return an error of a job, or of a store, with commands and options."""
    return as_given(in_commands(text), OPTIONS)


def _reach(table: str) -> None:
    """Raise ``SourceError`` if a table's package or catalog is not there."""
    from ..archives import open_archive

    open_archive(table).exists()


def _is_here(master: str | None) -> bool:
    """Return whether Spark is started by this process, and its workers run on this machine."""
    return (master or LOCAL).startswith("local") and SUBMITTED not in os.environ


def _opened(job: str, master: str | None) -> "SparkSession":
    from pyspark.sql import SparkSession

    from .._register import load_sources, register

    builder = SparkSession.builder.appName(f"lanemq spark {job}")
    if master is not None or SUBMITTED not in os.environ:
        master = master or LOCAL
        builder = builder.master(master)
        if master.startswith("local"):  # else whatever python3 there is on PATH
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = builder.config("spark.ui.enabled", "false")  # a second of its start
    shown = str(sys.stderr.isatty()).lower()
    _on_interruption(_interrupt)
    # This process has nothing else to do while the JVM starts.
    loading = threading.Thread(target=load_sources, daemon=True)
    loading.start()
    opened = builder.config("spark.ui.showConsoleProgress", shown).getOrCreate()
    loading.join()
    _on_interruption(_interrupt)  # PySpark's asks the JVM on a connection that is in use
    opened.sparkContext.setLogLevel("OFF")
    register(opened)
    return opened


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    logging.disable(logging.ERROR)  # py4j logs the traceback of the call that ends here
    raise KeyboardInterrupt


def _on_interruption(handler: Any) -> None:  # noqa: ANN401 - what signal.getsignal gives
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


class Failed(CommandFailed):
    """A job that could not be done: one line, and exit status 2."""

    exit_code = 2


def _told(text: str) -> str:
    """Return what a source said, without the way it took through Spark."""
    for line in reversed(text.splitlines()):
        name, colon, said = line.partition(": ")
        if colon and name.startswith("lanemq.spark."):
            return said
    if missing := MISSING_MODULE.search(text):
        return (
            f"the Python of Spark's workers has no {missing[1]}: install lanemq[spark] there, or"
            " set PYSPARK_PYTHON to a Python that has it; lanemq spark doctor shows them all"
        )
    if missing := NO_PYTHON.search(text):
        return (
            f"Spark's workers have no {missing[1]}: set PYSPARK_PYTHON to a Python with"
            " lanemq[spark] that is there on each of them"
        )
    if text.startswith(WORKER_FAILED) and (causes := CAUSE.findall(text)):
        return f"a task failed: {causes[-1]}"
    first = text.split("\n")[0]
    if first.startswith("[PATH_ALREADY_EXISTS]"):  # Spark advises a mode that no job has
        path = first.partition("Path ")[2].partition(" already exists")[0]
        return f"{path} already exists: name a directory that does not"
    if first.startswith("[JAVA_GATEWAY_EXITED]"):
        return (
            "Spark did not start, and what it said is above: it needs a JDK 17 (java on PATH, or"
            " JAVA_HOME), and --master one of local[N], spark://HOST:PORT, yarn, k8s://URL"
        )
    return first


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON has
    """Print a result of a job, or a list of them."""
    plain = (
        [dataclasses.asdict(one) for one in value]
        if isinstance(value, list)
        else dataclasses.asdict(value)
    )
    write_json(json.dumps(plain, indent=2))


def print_table(names: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """Print rows under names; numbers get separators, and what peers chose is escaped.

    Nothing is cut: on a terminal long cells go on in the next line, elsewhere lines are as long
    as they need.
    """
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            *(
                Text(
                    f"{one:,}" if isinstance(one, int) and one is not True else show_text(str(one))
                )
                for one in row
            )
        )
    console = Console()
    if not console.is_terminal:
        console.width = Console(width=UNLIMITED).measure(table).maximum
    console.print(table)
