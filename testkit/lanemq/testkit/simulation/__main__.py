"""``python -m lanemq.testkit.simulation``: simulate clusters, one seed after the other."""

import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from threading import Lock
from typing import Final

import click

from ._cluster import MISFORTUNES
from ._proxy_cluster import MISFORTUNES as MISFORTUNES_OF_PROXIES
from ._simulate import Report, simulate
from ._simulate_proxies import ProxyReport, simulate_proxies

HASH_SEED = "PYTHONHASHSEED"
MODULE = "lanemq.testkit.simulation"
ALL_MISFORTUNES: Final = sorted({*MISFORTUNES, *MISFORTUNES_OF_PROXIES})
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
    if seed is not None and runs is None:
        try:
            report = kind.simulate(seed)
        except BaseException:
            click.echo(f"again: make sim SEED={seed} STEPS={steps}{kind.chosen}", err=True)
            raise
        click.echo(report.line)
        return
    options = [*kind.options, *["--verbose"] * verbose]
    if runs is not None:
        first = _drawn() if seed is None else seed
        sys.exit(run_all(range(first, first + runs), options, jobs))
    until_s = time.monotonic() + seconds
    while True:
        if returned := run_all([_drawn()], options, 1):
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
        known = MISFORTUNES_OF_PROXIES if self.proxy else MISFORTUNES
        if self.only is not None and self.only not in known:
            raise click.UsageError(f"--only is one of {', '.join(known)} here")

    @property
    def chosen(self) -> str:
        """The variables of ``make sim`` beside seed and steps."""
        only = f" ONLY={self.only}" if self.only is not None else ""
        return only + "".join(f" {name.upper()}=1" for name in self._flags)

    @property
    def options(self) -> list[str]:
        """The options of a process that runs one seed of the kind."""
        only = ["--only", self.only] if self.only is not None else []
        return ["--steps", str(self.steps), *only, *(f"--{name}" for name in self._flags)]

    @property
    def _flags(self) -> list[str]:
        return [name for name in ("transactions", "keys", "proxy") if getattr(self, name)]

    def simulate(self, seed: int) -> Report | ProxyReport:
        """Run a seed. Raises ``Violated``."""
        if self.proxy:
            return simulate_proxies(seed, self.steps, self.only)
        has = {"has_transactions": self.transactions, "has_keys": self.keys}
        return simulate(seed, self.steps, self.only, **has)


def run_all(seeds: Sequence[int], options: Sequence[str], jobs: int) -> int:
    """Run seeds, ``jobs`` of them at once, until one does not hold; returns its status, or 0.

    Each has a process of its own: what a process has counted so far is part of a run.
    """
    left, failed, guard = iter(seeds), list[int](), Lock()

    def work() -> None:
        while True:
            with guard:
                seed = None if failed else next(left, None)
            if seed is None:
                return
            command = [sys.executable, "-m", MODULE, "--seed", str(seed), *options]
            if returned := subprocess.run(command, check=False).returncode:
                failed.append(returned)

    with ThreadPoolExecutor(jobs) as pool:
        for running in [pool.submit(work) for _ in range(jobs)]:
            running.result()
    return failed[0] if failed else 0


def _drawn() -> int:
    return random.SystemRandom().getrandbits(32)


if __name__ == "__main__":
    main()
