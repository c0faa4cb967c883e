"""A store on its way to RocksDB and back changes hands between lanemq and Apache at every stage.

Whoever opens it finds every message in its slot, every topic, group and offset, and goes on
where the other stopped. lanemq does the changes of stage; what Apache makes of those is in
``test_upgrade_controls.py``.
"""

import json
import shutil
from pathlib import Path

import pytest
import trio

from lanemq.compat import StoreStand, StoreView, walk_log, walk_rows
from lanemq.storage import Stage
from lanemq.testkit.cases import first

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

APACHE, OLD_APACHE = "apache-5.3.3", "apache-4.9.7"
QUEUES = 2
PERSIST_AT_ONCE = {"flushConsumerOffsetInterval": "100"}
PERSISTED_S = 5.0
"""Longest time offsets may take to the disk: those not there are lost by a kill."""


class Journey:
    """A store, and what must be found in it."""

    def __init__(self, stand: StoreStand) -> None:
        self.stand = stand
        self.kept: StoreView | None = None
        self.topics: list[str] = []

    async def stop_at(self, maker: str, stage: Stage, *, killed: bool = False) -> StoreView:
        """Open the store with one broker, look for everything, add something, close it."""
        stand = self.stand
        async with stand.run(maker, stage, killed=killed, settings=PERSIST_AT_ONCE):
            found = await stand.view()
            assert found.holes == [], (maker, stage)
            assert found.shifted == [], (maker, stage)
            if self.kept is not None:
                assert self.kept.lost_in(found) == [], (maker, stage)
            # Apache writes no offset in its first ten seconds, and none when it is killed.
            await self._add(commits=not killed or maker == "lanemq")
            self.kept = await stand.view()
            assert found.lost_in(self.kept) == [], (maker, stage)
            if maker == "lanemq" and stage is Stage.BOTH:
                await stand.indexes_agree()
            if killed:
                await trio.sleep(PERSISTED_S)
        records = list(walk_log(stand.store))
        assert self.kept.positions <= {record.log_position for record in records}
        if stage is not Stage.FILES and not killed:
            rows = walk_rows(stand.store)
            assert rows.positions == {record.log_position for record in records}, (maker, stage)
            assert rows.watermark == records[-1].log_position + records[-1].size_bytes
        return found

    async def _add(self, *, commits: bool) -> None:
        """Make a topic and a group, send to all topics made so far, and commit offsets."""
        stand, number = self.stand, len(self.topics)
        topic, group = f"crossing-{number}", f"crossing-group-{number}"
        await stand.make_topic(topic, QUEUES)
        await stand.make_group(group)
        self.topics.append(topic)
        for known in self.topics:
            for queue_id in range(QUEUES):
                _, end = (0, 0)
                if self.kept is not None:
                    _, end = self.kept.bounds.get((known, queue_id), (0, 0))
                bodies = [b"%d of %d" % (n, number) for n in range(3)]
                offsets = await stand.send(known, queue_id, bodies, tags=f"T{number}")
                assert offsets == [end, end + 1, end + 2]
            if commits:
                await stand.commit(group, known, 1, number)
                await stand.commit("crossing-group-0", known, 0, number)


async def there_and_back(folder: Path) -> None:
    """A store of 5.3.3 goes to and fro at every stage."""
    journey = Journey(StoreStand.recorded("file-5.3.3-clean", folder))
    await journey.stop_at("lanemq", Stage.FILES)
    await journey.stop_at(APACHE, Stage.FILES)
    await journey.stop_at("lanemq", Stage.BOTH)
    await journey.stop_at(APACHE, Stage.BOTH)
    await journey.stop_at("lanemq", Stage.ROCKSDB)
    await journey.stop_at(APACHE, Stage.ROCKSDB)
    # Back again. Apache's exit leaves topics, groups and offsets in RocksDB only; ours exports.
    await journey.stop_at("lanemq", Stage.ROCKSDB)
    await journey.stop_at("lanemq", Stage.BOTH)
    await journey.stop_at("lanemq", Stage.FILES)
    await journey.stop_at(APACHE, Stage.FILES, killed=True)


async def from_4_9_7_and_back(folder: Path) -> None:
    """A store of 4.9.7, converted at rest, is one for 5.3.3 with RocksDB, and for 4.9.7 again.

    Its offsets have no version at all, and its first record lies at 0.
    """
    journey = Journey(StoreStand.recorded("file-4.9.7-clean", folder))
    await journey.stop_at("lanemq", Stage.FILES)
    await journey.stand.tool("convert", "--to", "rocksdb")
    await journey.stop_at("lanemq", Stage.ROCKSDB)
    await journey.stop_at(APACHE, Stage.ROCKSDB)
    await journey.stop_at("lanemq", Stage.ROCKSDB)
    await journey.stand.tool("convert", "--to", "files")
    await journey.stop_at(OLD_APACHE, Stage.FILES, killed=True)


async def through_kills(folder: Path) -> None:
    """Whoever is killed leaves a store for the other."""
    journey = Journey(StoreStand.recorded("file-5.3.3-clean", folder))
    for maker in ("lanemq", APACHE):
        await journey.stop_at(maker, Stage.FILES, killed=True)
    for maker in ("lanemq", APACHE):
        await journey.stop_at(maker, Stage.BOTH, killed=True)
    await journey.stop_at("lanemq", Stage.BOTH)  # looks at all rows
    for maker in ("lanemq", APACHE):
        await journey.stop_at(maker, Stage.ROCKSDB, killed=True)
    await journey.stop_at("lanemq", Stage.ROCKSDB)
    await journey.stop_at("lanemq", Stage.FILES, killed=True)
    await journey.stop_at(APACHE, Stage.FILES, killed=True)


async def test_stores_go_to_and_fro_at_every_stage(tmp_path: Path) -> None:
    """All journeys at once: an Apache broker takes ten seconds to stop, and sleeps through them."""
    async with trio.open_nursery() as nursery:
        for travel in (there_and_back, from_4_9_7_and_back, through_kills):
            nursery.start_soon(travel, tmp_path / travel.__name__)


@pytest.mark.parametrize("stage", [Stage.BOTH, Stage.ROCKSDB], ids=["stage 2", "stage 3"])
@pytest.mark.parametrize(
    "copied", first(1, [False, True]), ids=["in place", "copied without times"]
)
async def test_work_of_4_9_7_after_a_rollback_counts_when_the_store_goes_up_again(
    stage: Stage, copied: bool, tmp_path: Path
) -> None:
    """4.9.7 counts groups again, and writes offsets without a version."""
    stand = StoreStand(tmp_path)
    async with stand.run("lanemq", Stage.ROCKSDB):
        await stand.make_topic("T", QUEUES)
        for number in range(5):
            await stand.make_group(f"G{number}")
        await stand.send("T", 0, [b"x"] * 10)
        await stand.commit("G0", "T", 0, 3)
    async with stand.run(OLD_APACHE, Stage.FILES):
        await stand.make_topic("U", QUEUES)
        await stand.make_group("H")
        await stand.send("U", 1, [b"y"] * 4)
        await stand.commit("G0", "T", 0, 8)
        await stand.commit("H", "U", 1, 2)
        kept = await stand.view()
    groups = json.loads((stand.store / "config" / "subscriptionGroup.json").read_text())
    assert groups["dataVersion"]["counter"] < 5, "or this shows nothing"
    assert "dataVersion" not in (stand.store / "config" / "consumerOffset.json").read_text()
    if copied:
        shutil.copytree(stand.store, tmp_path / "copy", copy_function=shutil.copyfile)
        shutil.rmtree(stand.store)
        (tmp_path / "copy").rename(stand.store)
    async with stand.run("lanemq", stage):
        found = await stand.view()
    assert kept.lost_in(found) == []
    assert found.offsets["G0", "T"][0] == 8
    assert found.offsets["H", "U"][1] == 2
    assert {"H", *[f"G{number}" for number in range(5)]} <= set(found.groups)
