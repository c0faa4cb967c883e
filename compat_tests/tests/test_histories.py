"""Histories of one store that brokers of Apache open, too: nothing is lost without a word.

A seed chooses who opens the store in which stage, how each ends, and what tools and a disk do to
it in between. Every start looks for all that was there before.
"""

import random
import shutil
from pathlib import Path

import pytest

from lanemq.compat import StoreStand, StoreView, walk_log
from lanemq.storage import Stage
from lanemq.testkit.cases import first

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

OURS, OLD_APACHE, APACHE = "lanemq", "apache-4.9.7", "apache-5.3.3"
STEPS = 5
SETTINGS = {"flushConsumerOffsetInterval": "100"}


class History:
    """A store, and what must be found in it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.stand = StoreStand(folder)
        self.kept: StoreView | None = None
        self.stage = Stage.FILES
        self.number = 0
        self.did: list[str] = []

    async def run(self) -> None:
        """Let Apache's brokers have the store between two runs of lanemq."""
        await self._life(OURS, Stage.FILES)
        for _ in range(STEPS):
            if self.stage is Stage.FILES and self.rng.random() < 0.5:
                # Apache's RocksDB loses rows of its own; what it does in stage 1 must count.
                await self._life(self.rng.choice((OLD_APACHE, APACHE)), Stage.FILES)
            else:
                stage = self.rng.choice(list(Stage))
                await self._life(OURS, stage)
            if self.rng.random() < 0.4:
                await self._tool()
            if self.rng.random() < 0.3:
                self._copy_without_times()
        await self._life(OURS, Stage.ROCKSDB)
        await self._life(OURS, Stage.FILES)

    async def _life(self, maker: str, stage: Stage) -> None:
        # Apache writes no offsets in its first ten seconds, and none when it is killed; and it
        # exports no tables from RocksDB, so neither may lanemq be killed there before it.
        killed = maker == OURS and stage is not Stage.ROCKSDB and self.rng.random() < 0.3
        self.did.append(f"{maker} in stage {int(stage)}, {'killed' if killed else 'stopped'}")
        self.number += 1
        topic, group = f"topic-{self.number}", f"group-{self.number}"
        async with self.stand.run(maker, stage, killed=killed, settings=SETTINGS):
            found = await self.stand.view()
            assert found.shifted == []
            if self.kept is not None:
                assert self.kept.lost_in(found) == []
            await self.stand.make_topic(topic, 2)
            await self.stand.make_group(group)
            bodies = [b"%d" % n * self.rng.choice((1, 300)) for n in range(4)]
            await self.stand.send(topic, self.number % 2, bodies, tags="t")
            if not killed:
                await self.stand.commit(group, topic, self.number % 2, self.rng.randint(1, 4))
            self.kept = await self.stand.view()
            assert found.lost_in(self.kept) == []
        assert self.kept.positions <= {record.log_position for record in walk_log(self.stand.store)}
        self.stage = stage

    async def _tool(self) -> None:
        line = self.rng.choice(
            (("convert", "--to", "rocksdb"), ("convert", "--to", "files"), ("repair",))
        )
        self.did.append(" ".join(line))
        await self.stand.tool(*line)

    def _copy_without_times(self) -> None:
        self.did.append("copied without times")
        copy = self.stand.folder / "copy"
        shutil.copytree(self.stand.store, copy, copy_function=shutil.copyfile)
        shutil.rmtree(self.stand.store)
        copy.rename(self.stand.store)


@pytest.mark.parametrize("seed", first(1, [1, 2, 3]))
async def test_nothing_is_lost_between_brokers_of_both_kinds(seed: int, tmp_path: Path) -> None:
    history = History(seed, tmp_path)
    try:
        await history.run()
    except BaseException as error:
        error.add_note(f"seed {seed}: {'; '.join(history.did)}")
        raise
