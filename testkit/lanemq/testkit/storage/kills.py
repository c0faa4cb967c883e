"""Lives of a broker, most of them double-writing, that end with SIGKILL at any moment.

Each runs in a process forked from a server that has everything imported and nothing opened, so
that hundreds of them take seconds. A life first looks whether the one before lost anything.
"""

import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, final

import trio

from lanemq.storage._store import Store

from .stages import Stand, new_message

QUEUES: Final = [("T", 0), ("T", 1), ("Other", 0)]
CHECKED: Final = "checked"
DONE: Final = "done"
EARLY_SHARE: Final = 0.3
"""The share of lives that are killed soon after their start, most before their look around."""
PATIENCE_S: Final = 60.0
"""Seconds for a life to look around, far more than it takes: the machine may be busy."""


def stand_at(root: str) -> Stand:
    """Return a store whose every task runs many times in a short life."""
    return Stand(
        Path(root),
        commit_log_file_bytes=1 << 16,
        consume_queue_file_bytes=1 << 14,
        flush_interval_s=0.002,
        flush_least_bytes=1,
        queue_flush_interval_s=0.003,
        queue_thorough_interval_s=0.012,
        offsets_persist_interval_s=1.0,
    )


def check(store: Store) -> None:
    """Check that queues have no gap, and that both indexes have the same where there are two."""
    rows = store.queue_rows
    for topic, queue_id in QUEUES:
        begin, end = store.bounds(topic, queue_id)
        units = store.units(topic, queue_id, begin, end - begin)
        assert len(units) == end - begin
        for unit in units[-50:]:
            assert store.record_at(unit.log_position) is not None
        if rows is None:
            continue
        newest = rows.max_row(topic, queue_id)
        if not units:
            assert newest is None
            continue
        assert newest == (units[-1].log_position, end - 1), (newest, end)
        found = rows.read_rows(topic.encode(), queue_id, begin, end - begin + 1)
        assert [row[:3] for row in found] == units
    assert rows is None or (rows.watermark() or 0) == store.max_position


async def _live(root: str, stage: int, seed: int, out: Connection) -> None:
    rng = random.Random(seed)
    async with stand_at(root).open(stage) as store:
        await store.in_rocksdb(store.max_position)
        check(store)
        report = await store.check_rocksdb()
        assert report is None or (report.is_ready and report.is_safe_to_switch)
        out.send((CHECKED, sum(store.bounds(*queue)[1] for queue in QUEUES)))
        number = 0
        for _ in range(rng.randint(1, 400)):
            for _ in range(rng.randint(1, 8)):
                number += 1
                topic, queue_id = rng.choice(QUEUES)
                store.put(new_message(number, topic=topic, queue_id=queue_id))
            store.commit()
            out.send((DONE, sum(store.bounds(*queue)[1] for queue in QUEUES)))
            if rng.random() < 0.3:
                await trio.sleep(rng.choice((0, 0.001, 0.004)))


def live(root: str, stage: int, seed: int, out: Connection) -> None:
    """Live one life; it says how many messages are committed, again and again, to ``out``."""
    trio.run(_live, root, stage, seed, out)
    out.close()


@final
class KillLoop:
    """Kills lives and counts. ``committed`` messages must never become fewer.

    Each life is in one of ``stages``.
    """

    def __init__(self, root: Path, *, stages: Sequence[int], seed: int) -> None:
        self._root = str(root)
        self._stages = stages
        self._rng = random.Random(seed)
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(
            ["lanemq.testkit.storage.kills", "lanemq.storage.rocks"]
        )
        self.kills = 0
        """Lives that ended with a kill."""
        self.checks = 0
        """Lives that found everything as it should be."""
        self.committed = 0

    def run_one(self) -> None:
        """Start a life, and kill it: a while after its start, or after its look around."""
        stage, seed = self._rng.choice(self._stages), self._rng.getrandbits(32)
        # All is drawn beforehand, so the number of early kills does not depend on the machine.
        is_early = self._rng.random() < EARLY_SHARE
        until_early_s, after_check_s = self._rng.uniform(0.01, 0.15), self._rng.uniform(0.0, 0.08)
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=live, args=(self._root, stage, seed, sender))
        process.start()
        sender.close()
        deadline_s = time.monotonic() + (until_early_s if is_early else PATIENCE_S)
        is_checked = False
        while receiver.poll(max(0.0, deadline_s - time.monotonic())):
            try:
                kind, committed = receiver.recv()
            except (EOFError, OSError):  # it may have died in the middle of a word
                break
            assert committed >= self.committed, "a committed message is lost"
            self.committed = committed
            if kind == CHECKED and not is_checked:
                is_checked = True
                self.checks += 1
                deadline_s = time.monotonic() + after_check_s
            if time.monotonic() >= deadline_s:
                break
        with suppress(ProcessLookupError):  # some die of old age
            process.kill()
        while True:  # its last word counts
            try:
                _, committed = receiver.recv()
            except (EOFError, OSError):  # it may have died in the middle of a word
                break
            self.committed = max(self.committed, committed)
        process.join()
        receiver.close()
        assert process.exitcode in (0, -signal.SIGKILL), "a life ended in an error: see above"
        self.kills += process.exitcode != 0
