"""Random histories of one store directory: stages, kills, conversions, repairs, damages.

A seed replays a history. Whatever happens to the store, what could be read before can be read
after, unless a warning has named it: the model knows each message's slot, and where it lies.
"""

import logging
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, final

from lanemq.storage._config import Stage
from lanemq.storage._errors import StartRefused
from lanemq.storage._store import Store
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.tools import BrokerSettings, export_in_place, repair_store, verify_store
from lanemq.storage.tools.reading._index_sizes import IndexSizes
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import decode_message

from .stages import Stand, copy_store, new_message

QUEUES: Final = (("A", 0), ("A", 1), ("Longer", 0))
GROUP: Final = "g"
BODY_AT: Final = 88
SETTINGS: Final = BrokerSettings(queue_file_bytes=200, index_sizes=IndexSizes(7, 400))


class Slot(NamedTuple):
    """The place of a message; offsets count messages, positions bytes of the log."""

    topic: str
    queue_id: int
    queue_offset: int


class Message(NamedTuple):
    """A message of the model."""

    number: int
    position: int


@final
class Warnings(logging.Handler):
    """Keeps the store's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@final
@dataclass
class History:
    """One history; ``did`` lists its steps, for people who look at a failure."""

    rng: random.Random
    folder: Path
    stand: Stand
    messages: dict[Slot, Message] = field(default_factory=dict)
    damaged: dict[Slot, Message] = field(default_factory=dict)
    committed: int = 0
    is_clean: bool = True
    number: int = 0
    stage: int = Stage.FILES
    did: list[str] = field(default_factory=list)

    @classmethod
    def of_seed(cls, seed: int, folder: Path) -> "History":
        """Return a history of a new store in ``folder``."""
        stand = Stand(folder / "store", export_json_on_close=True)
        return cls(random.Random(seed), folder, stand)

    async def run(self, steps: int) -> None:
        """Do ``steps`` random things, each followed by a start that looks at everything."""
        await self._life()
        at_rest: list[Callable[[], None]] = [
            self._convert,
            self._repair,
            self._flip_body,
            self._lose_queue,
            self._lose_key_index,
            self._lose_times,
            self._verify,
        ]
        for _ in range(steps):
            for deed in self.rng.sample(at_rest, self.rng.choice((0, 1, 1, 2))):
                deed()
            await self._life()

    async def _life(self) -> None:
        """Start in some stage, and end by a stop or by a kill."""
        self.stage = self.rng.choice((Stage.FILES, Stage.BOTH, Stage.ROCKSDB))
        killed = self.rng.random() < 0.3
        self.did.append(f"stage {int(self.stage)}, {'killed' if killed else 'stopped'}")
        warnings = Warnings()
        logger = logging.getLogger("lanemq.storage")
        logger.addHandler(warnings)
        try:
            await self._open(killed=killed, warnings=warnings)
        except StartRefused as error:
            self._follow_advice(error)
            await self._open(killed=killed, warnings=warnings)
        finally:
            logger.removeHandler(warnings)
        self.is_clean = not killed
        if killed:
            self.stand.root = self.folder / f"after-{len(self.did)}"

    async def _open(self, *, killed: bool, warnings: Warnings) -> None:
        async with self.stand.open(self.stage) as store:
            if not self.number:
                for topic in sorted({topic for topic, _ in QUEUES}):
                    store.tables.topics.put(TopicConfig(topic, 2, 2))
            self.check(store, warnings)
            for _ in range(self.rng.randint(not self.number, 15)):
                self._put(store)
            store.commit()
            self._commit_offset(store)
            if self.rng.random() < 0.5:
                await store.in_rocksdb(store.max_position)
            self.check(store, warnings)
            if killed:
                store.tables.persist()
                target = self.folder / f"after-{len(self.did)}"
                copy_store(self.stand.root, target)

    def _follow_advice(self, error: StartRefused) -> None:
        """Do one of the things that a refusal names; nothing else may refuse a start."""
        text = str(error)
        if "export-metadata" in text and self.rng.random() < 0.5:
            self.did.append("exported the tables")
            export_in_place(self.stand.root)
        elif "storeType=defaultRocksDB once more" in text:
            self.did.append("went back to stage 3")
            self.stage = Stage.ROCKSDB
        else:
            raise error

    def _put(self, store: Store) -> None:
        topic, queue_id = self.rng.choice(QUEUES)
        self.number += 1
        message = new_message(self.number, topic=topic, queue_id=queue_id)
        message.body += bytes(self.rng.choice((0, 10, 1500)))
        put = store.put(message)
        slot = Slot(topic, queue_id, put.queue_offset)
        assert slot not in self.messages, f"offset given twice: {slot}"
        assert slot not in self.damaged, f"offset of a damaged message given again: {slot}"
        self.messages[slot] = Message(self.number, put.log_position)

    def _commit_offset(self, store: Store) -> None:
        offsets = [slot.queue_offset for slot in self.messages if slot[:2] == ("A", 0)]
        if offsets:
            self.committed = max(self.committed, self.rng.choice(offsets))
            store.tables.consumer_offsets.put(GROUP, "A", 0, self.committed)

    def check(self, store: Store, warnings: Warnings) -> None:
        """Check that all that could be read can be read, and damage is not given, but named."""
        for slot, message in self.messages.items():
            got = store.get(*slot, max_count=1)
            assert got.records, (slot, got)
            found = decode_message(got.records[0])
            assert (found.topic, found.queue_id, found.queue_offset) == slot
            assert found.log_position == message.position
            assert int(found.body.rstrip(b"\0")) == message.number
            by_key = store.query(
                slot.topic, f"U{message.number}", max_count=9, begin_ms=0, end_ms=1 << 60
            )
            assert len(by_key.records) == 1, (slot, message)
        for slot, message in self.damaged.items():
            got = store.get(*slot, max_count=1)
            for record in got.records:
                assert decode_message(record).queue_offset > slot.queue_offset
            assert got.next_offset > slot.queue_offset
            assert store.why_damaged(message.position)
            assert any(f"the message at {message.position} " in line for line in warnings.lines)
        known = store.tables.consumer_offsets.get(GROUP, "A", 0)
        assert (known or 0) == self.committed
        assert {topic for topic, _ in QUEUES} <= set(store.tables.topics.names)

    # Without a broker

    def _convert(self) -> None:
        from_log = self.rng.random() < 0.3
        if self.rng.random() < 0.5:
            self.did.append(f"converted to files, from_log={from_log}")
            convert_to_files(self.stand.root, from_log=from_log, settings=SETTINGS)
        else:
            self.did.append(f"converted to RocksDB, from_log={from_log}")
            convert_to_rocksdb(self.stand.root, from_log=from_log, settings=SETTINGS)

    def _repair(self) -> None:
        everything = self.rng.random() < 0.3
        self.did.append(f"repaired, everything={everything}")
        repair_store(self.stand.root, everything=everything, settings=SETTINGS, jobs=1)

    def _verify(self) -> None:
        self.did.append("verified")
        report = verify_store(self.stand.root, settings=SETTINGS, jobs=1)
        found = {one.log_position for one in report.findings if one.kind == "damaged-body"}
        assert {message.position for message in self.damaged.values()} <= found

    def _flip_body(self) -> None:
        """Change a byte of a body on the disk; not of the last one, which a kill may tear."""
        newest = max(message.position for message in self.messages.values()) if self.messages else 0
        slots = [slot for slot, message in self.messages.items() if message.position < newest]
        if not slots:
            return
        slot = self.rng.choice(slots)
        message = self.damaged[slot] = self.messages.pop(slot)
        self.did.append(f"damaged {slot} at {message.position}")
        file_bytes = self.stand.config(1).commit_log_file_bytes
        start = message.position // file_bytes * file_bytes
        with (self.stand.root / f"commitlog/{start:020d}").open("r+b") as log:
            log.seek(message.position - start + BODY_AT + self.rng.randrange(100))
            byte = log.read(1)[0]
            log.seek(-1, 1)
            log.write(bytes([byte ^ (1 << self.rng.randrange(8))]))

    def _lose_queue(self) -> None:
        """Files of a queue are taken away from a store that was closed."""
        topic, queue_id = self.rng.choice(QUEUES)
        paths = sorted((self.stand.root / "consumequeue" / topic / str(queue_id)).glob("*"))
        if not self.is_clean or not paths:
            return
        chosen = self.rng.choice((paths, paths[-1:], paths[:1]))
        self.did.append(f"lost files of {topic}/{queue_id}: {[path.name for path in chosen]}")
        for path in chosen:
            path.unlink()

    def _lose_key_index(self) -> None:
        """Lose the key index, and repair it: a start does not look for it."""
        self.did.append("lost the key index, and repaired")
        shutil.rmtree(self.stand.root / "index", ignore_errors=True)
        repair_store(self.stand.root, settings=SETTINGS, jobs=1)

    def _lose_times(self) -> None:
        """Copy the directory as ``cp -r`` does."""
        target = self.folder / f"copy-{len(self.did)}"
        self.did.append("copied without times")
        shutil.copytree(self.stand.root, target, copy_function=shutil.copyfile)
        self.stand.root = target
