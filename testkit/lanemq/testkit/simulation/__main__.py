"""``python -m lanemq.testkit.simulation``: simulate clusters, one seed after the other."""

import gc
import logging
import os
import random
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Final

import click

from ._cluster import MISFORTUNES
from ._proxy_cluster import MISFORTUNES as MISFORTUNES_OF_PROXIES
from ._proxy_cluster import MOVES
from ._simulate import Report, simulate
from ._simulate_proxies import ProxyReport, simulate_proxies

HASH_SEED = "PYTHONHASHSEED"
MODULE = "lanemq.testkit.simulation"
ALL_MISFORTUNES: Final = sorted({*MISFORTUNES, *MISFORTUNES_OF_PROXIES, MOVES})
GARBAGE: Final = 20_000
"""The number of new objects after which the collector looks for garbage among them."""
NOTHING = logging.CRITICAL + 1
"""The level at which programs log nothing: their alarms are part of many runs."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Run this one only; else fresh ones are drawn.")
@click.option("--steps", default=30, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=0.0, help="Draw seeds for so long.  [default: one seed]")
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Run so many seeds, from the given or a drawn one on, up to the first that does not hold.",
)
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Runs at once."
)
@click.option("--only", type=click.Choice(ALL_MISFORTUNES), help="Let nothing else happen.")
@click.option("--transactions", is_flag=True, help="Let producers send transactions, too.")
@click.option("--keys", is_flag=True, help="Let clients use keys, whose partitions move, too.")
@click.option("--proxy", is_flag=True, help="Put two proxies in front of a cluster that grows.")
@click.option("-v", "--verbose", is_flag=True, help="Print what the programs log.")
def main(
    seed: int | None,
    steps: int,
    seconds: float,
    runs: int | None,
    jobs: int,
    only: str | None,
    *,
    transactions: bool,
    keys: bool,
    proxy: bool,
    verbose: bool,
) -> None:
    """Run whole clusters under a simulated clock, with random misfortunes, and check the books.

    A run is determined by seed and steps. Ends with status 1 at the first broken promise, and
    prints how to see it again.
    """
    if os.environ.get(HASH_SEED) != "0":  # the order of sets is part of a run
        os.environ[HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]])
    kind = Kind(steps, only, transactions=transactions, keys=keys, proxy=proxy)
    kind.check()
    logging.basicConfig(level=logging.INFO if verbose else NOTHING)
    _spare_the_collector()
    if seed is not None and runs is None:
        kind.run(seed)
        return
    if runs is not None:
        first = _drawn() if seed is None else seed
        sys.exit(run_all(range(first, first + runs), kind, jobs))
    until_s = time.monotonic() + seconds
    while True:
        if returned := run_all([_drawn()], kind, 1):
            sys.exit(returned)
        if time.monotonic() >= until_s:
            return


@dataclass(frozen=True)
class Kind:
    """The options that all runs have."""

    steps: int
    only: str | None
    _: KW_ONLY
    transactions: bool
    keys: bool
    proxy: bool

    def check(self) -> None:
        """Check that the options go together. Raises ``click.UsageError``."""
        if self.proxy and (self.transactions or self.keys):
            raise click.UsageError("--proxy has neither --transactions nor --keys")
        known = (*MISFORTUNES_OF_PROXIES, MOVES) if self.proxy else MISFORTUNES
        if self.only is not None and self.only not in known:
            raise click.UsageError(f"--only is one of {', '.join(known)} here")

    @property
    def chosen(self) -> str:
        """The variables of ``make sim`` beside seed and steps."""
        only = f" ONLY={self.only}" if self.only is not None else ""
        return only + "".join(f" {name.upper()}=1" for name in self._flags)

    @property
    def _flags(self) -> list[str]:
        return [name for name in ("transactions", "keys", "proxy") if getattr(self, name)]

    def run(self, seed: int) -> None:
        """Run a seed and print its report, or how to see it again. Raises ``Violated``."""
        try:
            report = self.simulate(seed)
        except BaseException:
            click.echo(f"again: make sim SEED={seed} STEPS={self.steps}{self.chosen}", err=True)
            raise
        click.echo(report.line)

    def simulate(self, seed: int) -> Report | ProxyReport:
        """Run a seed. Raises ``Violated``."""
        if self.proxy:
            return simulate_proxies(seed, self.steps, self.only)
        has = {"has_transactions": self.transactions, "has_keys": self.keys}
        return simulate(seed, self.steps, self.only, **has)


def run_all(seeds: Iterable[int], kind: Kind, jobs: int) -> int:
    """Run seeds, ``jobs`` of them at once, until one does not hold; returns its status, or 0.

    Each has a process of its own: what a process has counted so far is part of a run. It is a copy
    of this one, which has loaded all modules and run none.
    """
    left, running, failed = iter(seeds), set[int](), 0
    while True:
        while not failed and len(running) < jobs and (seed := next(left, None)) is not None:
            running.add(_copy_that_runs(kind, seed))
        if not running:
            return failed
        ended, status = os.wait()
        running.remove(ended)
        failed = failed or abs(os.waitstatus_to_exitcode(status))


def _copy_that_runs(kind: Kind, seed: int) -> int:
    """Return the id of a copy of the process that runs a seed, and ends with status 1 if that does
    not hold."""
    sys.stdout.flush()
    if copy := os.fork():
        return copy
    status = 1
    try:
        kind.run(seed)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _spare_the_collector() -> None:
    """Let the collector of garbage look seldom, and never at what is loaded: a run makes little
    garbage that it is needed for, and it took a twelfth of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def _drawn() -> int:
    return random.SystemRandom().getrandbits(32)


if __name__ == "__main__":
    main()
