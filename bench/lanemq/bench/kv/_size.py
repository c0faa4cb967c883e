"""A broker with very many entries: its memory, and the time to read and write all of them.

The entries come by ``lanemq kv import`` from a snapshot that is made for it, and leave by
``lanemq kv export``, both as anybody would call them.
"""

import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from lanemq.compat import ServerFailed, lanemq_cluster, running
from lanemq.sdk.kv import KeyValueStore, open_kv_store
from lanemq.wire.kv import LoadedEntry, SnapshotHeader, SnapshotWriter

from .._results import disk_mib, resident_mib
from ._results import KvSize

NAMESPACE: Final = "bench"
VALUE: Final = bytes(100)
BLOCK: Final = 5000
PAGE: Final = 100
KV: Final = (sys.executable, "-c", "from lanemq.sdk.kv.cli import kv; kv()")
PAGES: Final = 200
MADE_MS: Final = 1_700_000_000_000

Say = Callable[[str], None]


def key_of(number: int) -> bytes:
    """Return the key of an entry: a hundred of them share all but the last two digits."""
    return b"entry/%010d" % number


def write_snapshot(path: Path, entries: int) -> None:
    """Write a snapshot with a number of entries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        header = SnapshotHeader(namespace=NAMESPACE, position=entries, clock_ms=MADE_MS)
        writer = SnapshotWriter(file.write, header)
        for begin in range(0, entries, BLOCK):
            block = range(begin, min(begin + BLOCK, entries))
            writer.add([LoadedEntry(key_of(one), VALUE, 1, MADE_MS, MADE_MS) for one in block])
        writer.finish()


async def measure_size(entries: int, folder: Path, say: Say) -> KvSize:
    """Fill a broker and read it; raises ``ServerFailed`` where something does not work."""
    cluster = lanemq_cluster(folder, settings={})
    snapshot, back = folder / "snapshot", folder / "exported"
    say(f"making a snapshot of {entries:,} entries")
    await trio.to_thread.run_sync(write_snapshot, snapshot, entries)
    async with running(cluster):
        pids = [daemon.pid for daemon in cluster.daemons]
        import_s = await _run(cluster.name_server, "import", snapshot)
        rss_mib = resident_mib(pids)
        say(f"imported in {import_s:.1f} s, {rss_mib:.0f} MiB resident")
        store = open_kv_store(namespace=NAMESPACE, name_servers=cluster.name_server)
        async with store as opened:
            pages_ms = await _pages(opened, entries)
        export_s = await _run(cluster.name_server, "export", back)
        say(f"exported in {export_s:.1f} s")
        if back.stat().st_size < entries * len(VALUE):
            raise ServerFailed("the export is shorter than what was imported")
        return KvSize(
            entries=entries,
            import_per_s=round(entries / import_s, 1),
            export_per_s=round(entries / export_s, 1),
            rss_mib=rss_mib,
            rss_read_mib=resident_mib(pids),
            page_ms=round(statistics.median(pages_ms), 3),
            page_p99_ms=round(pages_ms[len(pages_ms) * 99 // 100], 3),
            disk_mib=await trio.to_thread.run_sync(disk_mib, folder / "store" / "kv"),
        )


async def _pages(store: KeyValueStore, entries: int) -> list[float]:
    """Read pages under prefixes at random; returns how long each took, in ms, sorted."""
    rng = random.Random(1)
    taken_ms = []
    for _ in range(PAGES):
        prefix = key_of(rng.randrange(max(1, entries // PAGE)) * PAGE)[:-2]
        begun_s = trio.current_time()
        page = await store.prefix(prefix, limit=PAGE)
        taken_ms.append((trio.current_time() - begun_s) * 1000)
        if len(page.entries) != min(PAGE, entries):
            raise ServerFailed(f"{len(page.entries)} entries are under {prefix!r}")
    return sorted(taken_ms)


async def _run(name_server: str, command: str, path: Path) -> float:
    """Run a command of ``lanemq kv``; returns the seconds that it took."""
    arguments = [*KV, command, "-n", name_server]
    begun_s = trio.current_time()
    done = await trio.run_process(
        [*arguments, "--namespace", NAMESPACE, "--timeout", "120", str(path)],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    if done.returncode:
        raise ServerFailed(f"lanemq kv {command} failed: {done.stderr.decode().strip()}")
    return trio.current_time() - begun_s
