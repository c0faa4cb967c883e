"""``python -m lanemq.testkit.fuzz [--seconds N] [--seed N]``; exit status 1 where it finds any."""

import argparse
import pickle
import random
import sys
import tempfile
from pathlib import Path

import trio

from . import run


def main() -> None:
    """Attack, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, help="Repeats what an earlier run sent.")
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--turn-ms", type=int, default=100)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}, {given.seconds:g} s", flush=True)
    root = Path(tempfile.mkdtemp(prefix="lanemq-fuzz-"))

    async def attack() -> None:
        findings = await run(
            root,
            seed=seed,
            seconds=given.seconds,
            limit_bytes=given.memory_mib << 20,
            turn_ms=given.turn_ms,
        )
        print(
            f"{findings.requests} requests over {findings.connections} connections, "
            f"at most {findings.peak_bytes >> 20} MiB, longest turn {findings.longest_ms} ms"
        )
        if findings.wrong:
            (root / "recent.pickle").write_bytes(pickle.dumps(findings.recent))
            print(*findings.wrong, f"logs and what was sent: {root}", sep="\n")
            sys.exit(1)
        print("nothing found")

    trio.run(attack)


main()
