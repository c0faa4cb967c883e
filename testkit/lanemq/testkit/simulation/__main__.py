"""``python -m lanemq.testkit.simulation``: simulate clusters, one seed after the other."""

import logging
import os
import random
import subprocess
import sys
import time

import click

from ._cluster import MISFORTUNES
from ._simulate import Report, simulate

HASH_SEED = "PYTHONHASHSEED"
MODULE = "lanemq.testkit.simulation"
NOTHING = logging.CRITICAL + 1
"""The level at which programs log nothing: their alarms are part of many runs."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Run this one only; else fresh ones are drawn.")
@click.option("--steps", default=30, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=0.0, help="Draw seeds for so long.  [default: one seed]")
@click.option("--only", type=click.Choice(MISFORTUNES), help="Let nothing else happen.")
@click.option("--transactions", is_flag=True, help="Let producers send transactions, too.")
@click.option("--keys", is_flag=True, help="Let clients use keys, whose partitions move, too.")
@click.option("-v", "--verbose", is_flag=True, help="Print what the programs log.")
def main(
    seed: int | None,
    steps: int,
    seconds: float,
    only: str | None,
    *,
    transactions: bool,
    keys: bool,
    verbose: bool,
) -> None:
    """Run whole clusters under a simulated clock, with random misfortunes, and check the books.

    A run is determined by seed and steps. Ends with status 1 at the first broken promise, and
    prints how to see it again.
    """
    if os.environ.get(HASH_SEED) != "0":  # the order of sets is part of a run
        os.environ[HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]])
    logging.basicConfig(level=logging.INFO if verbose else NOTHING)
    if seed is not None:
        try:
            report = simulate(seed, steps, only, has_transactions=transactions, has_keys=keys)
        except BaseException:
            chosen = f" ONLY={only}" if only is not None else ""
            chosen += " TRANSACTIONS=1" if transactions else ""
            chosen += " KEYS=1" if keys else ""
            click.echo(f"again: make sim SEED={seed} STEPS={steps}{chosen}", err=True)
            raise
        show(report)
        return
    until_s = time.monotonic() + seconds
    while True:
        drawn = random.SystemRandom().getrandbits(32)
        # Each in a process of its own: what a process has counted so far is part of a run.
        again = [sys.executable, "-m", MODULE, "--seed", str(drawn), "--steps", str(steps)]
        again += ["--only", only] if only is not None else []
        again += ["--transactions"] * transactions + ["--keys"] * keys
        done = subprocess.run(again + ["--verbose"] * verbose, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        if time.monotonic() >= until_s:
            return


def show(report: Report) -> None:
    """Print a run in one line."""
    misfortunes = ", ".join(f"{name} {n}" for name, n in sorted(report.misfortunes.items()))
    committed, rolled_back, asked = report.transactions
    click.echo(
        f"seed {report.seed}: {report.simulated_s:.0f} s simulated, "
        f"{report.acknowledged} acknowledged ({report.failed_sends} sends failed), "
        f"{report.delivered} delivered, {report.migrations} migrations "
        f"({report.interrupted} interrupted), {report.gone_past} times past a source "
        f"({report.appended} messages appended), {committed} transactions committed and "
        f"{rolled_back} rolled back ({asked} times asked), {report.keys[0]} answers about keys "
        f"and {report.keys[1]} moves of partitions; {misfortunes}; trace {report.trace}"
    )


if __name__ == "__main__":
    main()
