"""``python -m lanemq.testkit.kv_histories``: histories of keys until so many kills were seen."""

import logging
import random
import tempfile
import time
from pathlib import Path

import click
import trio

from ._cluster import open_cluster
from ._rounds import KINDS


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kills", default=100, show_default=True, help="End once there were so many.")
@click.option("--seed", type=int, help="Draws what happens; the processes have their own pace.")
@click.option("--only", type=click.Choice(list(KINDS)), help="Rounds of this kind alone.")
@click.option("--keep", is_flag=True, help="Leave the stores there.")
def main(kills: int, seed: int | None, only: str | None, *, keep: bool) -> None:
    """Let clients of keys work at two brokers that fare badly, and judge what they were answered.

    Ends with status 1 at the first round that no one store explains, and leaves the stores then.
    """
    logging.disable(logging.CRITICAL)
    seed = random.randrange(1 << 30) if seed is None else seed
    root = Path(tempfile.mkdtemp(prefix="lanemq-kv-"))
    click.echo(f"seed {seed}, stores in {root}")
    trio.run(_run, root, seed, kills, [only] if only else list(KINDS))
    if not keep:
        import shutil

        shutil.rmtree(root)


async def _run(root: Path, seed: int, kills: int, kinds: list[str]) -> None:
    rng = random.Random(seed)
    number = 0
    async with open_cluster(root, seed) as cluster:
        await cluster.create("default")
        while cluster.counts["kills"] < kills:
            number += 1
            kind = kinds[number % len(kinds)]
            begin_s = time.monotonic()
            holds = await KINDS[kind](cluster, rng, str(number))
            happened = ", ".join(f"{count} {what}" for what, count in cluster.counts.items())
            click.echo(f"{number} {kind}: {time.monotonic() - begin_s:.0f} s; so far {happened}")
            if not holds:
                raise SystemExit(f"round {number} ({kind}) of seed {seed} has no explanation")
        wrong = await cluster.end()
    if wrong:
        raise SystemExit("\n".join(wrong))
    click.echo(f"{number} rounds hold")


if __name__ == "__main__":
    main()
