"""``python -m lanemq.proxy.simulation``: simulate clusters, one seed after the other."""

import logging
import os
import random
import sys
import time

import click
import trio

from ._simulate import Report, simulate

HASH_SEED = "PYTHONHASHSEED"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Run this one only; else fresh ones are drawn.")
@click.option("--steps", default=30, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=0.0, help="Draw seeds for so long.  [default: one seed]")
@click.option("-v", "--verbose", is_flag=True, help="Print what the programs log.")
def main(seed: int | None, steps: int, seconds: float, *, verbose: bool) -> None:
    """Run whole clusters under a simulated clock, with random misfortunes, and check the books.

    A run is determined by seed and steps. Ends with status 1 at the first broken promise, and
    prints how to see it again.
    """
    if os.environ.get(HASH_SEED) != "0":  # the order of sets is part of a run
        os.environ[HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "lanemq.proxy.simulation", *sys.argv[1:]])
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL)
    until_s = time.monotonic() + seconds
    while True:
        drawn = seed if seed is not None else random.SystemRandom().getrandbits(32)
        fix_scheduling(drawn)
        try:
            report = simulate(drawn, steps)
        except BaseException:
            click.echo(f"again: make sim SEED={drawn} STEPS={steps}", err=True)
            raise
        show(report)
        if seed is not None or time.monotonic() >= until_s:
            return


def fix_scheduling(seed: int) -> None:
    """Let trio run tasks in an order that the seed determines."""
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio._core._run._r.seed(seed)
    random.seed(seed)


def show(report: Report) -> None:
    """Print a run in one line."""
    misfortunes = ", ".join(f"{name} {n}" for name, n in sorted(report.misfortunes.items()))
    click.echo(
        f"seed {report.seed}: {report.simulated_s:.0f} s simulated, "
        f"{report.acknowledged} acknowledged ({report.failed_sends} sends failed), "
        f"{report.delivered} delivered, {report.migrations} migrations "
        f"({report.interrupted} interrupted); {misfortunes}"
    )


if __name__ == "__main__":
    main()
