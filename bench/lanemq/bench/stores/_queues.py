"""A broker with a million queues: the time of its start, and its memory at rest.

The same store is made twice, with queues in files and with queues in RocksDB. Each broker is
started after a clean stop and after a SIGKILL.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import trio

from lanemq.compat import PATIENT_S, StoreStand, stage_settings
from lanemq.sdk.admin import open_admin
from lanemq.storage import Stage
from lanemq.wire.bodies import MessageQueue

from .._results import QueuesBench, QueuesMode, disk_mib, resident_mib, this_machine
from ._queue_maker import queues_of

MODES = {"files": Stage.FILES, "rocksdb": Stage.ROCKSDB}
BROKER_NAME = "broker-a"
SAMPLE = 2000
"""Queues that are read after the start, spread over all of them."""
START_S = 900.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesPlan:
    """The stores to make and start."""

    queues: int = 1_000_000
    queues_per_topic: int = 1000
    modes: tuple[str, ...] = ("rocksdb", "files")
    folder: Path | None = None
    """The folder of the stores, by default the one for temporary files. Files need 4 KiB of disk
    and two inodes for each queue."""


async def bench_queues(plan: QueuesPlan, say: Say) -> QueuesBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a broker does not start."""
    machine = this_machine()
    results = {}
    for mode in plan.modes:
        with tempfile.TemporaryDirectory(prefix="lanemq-queues-", dir=plan.folder) as name:
            results[mode] = await _measure(plan, mode, Path(name), say)
    return QueuesBench(machine, plan.queues, plan.queues_per_topic, results)


async def _measure(plan: QueuesPlan, mode: str, folder: Path, say: Say) -> QueuesMode:
    stand = StoreStand(folder, settings={})
    say(f"{mode}: making {plan.queues:,} queues")
    begun = trio.current_time()
    await make_in_child(stand.store, MODES[mode], plan)
    made_s = trio.current_time() - begun
    taken_mib = await trio.to_thread.run_sync(disk_mib, stand.store)
    broker = stand.broker("lanemq", MODES[mode])
    broker.start_s = START_S
    await broker.start()
    try:
        start_s, rss_mib = broker.ready_after_s, resident_mib([broker.pid])
        say(f"{mode}: started in {start_s:.1f} s with {rss_mib:.0f} MiB")
        begun = trio.current_time()
        await read_some(stand.address, plan)
        read_s, read_rss_mib = trio.current_time() - begun, resident_mib([broker.pid])
        begun = trio.current_time()
        await broker.stop()
        stop_s = trio.current_time() - begun
        await broker.start()
        await broker.kill()
        await broker.start()
        say(f"{mode}: started after SIGKILL in {broker.ready_after_s:.1f} s")
        return QueuesMode(
            made_s=round(made_s, 1),
            disk_mib=taken_mib,
            start_s=round(start_s, 2),
            rss_mib=rss_mib,
            read_s=round(read_s, 2),
            read_rss_mib=read_rss_mib,
            stop_s=round(stop_s, 2),
            start_after_kill_s=round(broker.ready_after_s, 2),
            rss_after_kill_mib=resident_mib([broker.pid]),
        )
    finally:
        with trio.CancelScope(shield=True):
            await broker.kill()


async def make_in_child(store: Path, stage: Stage, plan: QueuesPlan) -> None:
    """Make the store in a process of its own, whose memory is gone afterwards."""
    command = [sys.executable, "-m", "lanemq.bench.stores._queue_maker", str(store)]
    kind = stage_settings(stage)["storeType"]
    await trio.run_process([*command, kind, str(plan.queues), str(plan.queues_per_topic)])


async def read_some(address: str, plan: QueuesPlan) -> None:
    """Read queues here and there, and see that each has its message."""
    step = max(1, plan.queues // SAMPLE)
    places = list(islice(queues_of(plan.queues, plan.queues_per_topic), 0, None, step))
    async with open_admin(name_servers=address, timeout_s=PATIENT_S) as admin:
        for number, (topic, queue_id) in enumerate(places):
            queue = MessageQueue(topic, BROKER_NAME, queue_id)
            pulled = await admin.pull(address, queue, 0)
            bodies = [int(message.body) for message in pulled.messages]
            assert bodies == [number * step + 1], (queue, pulled)
