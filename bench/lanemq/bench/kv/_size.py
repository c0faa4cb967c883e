"""A broker with very many entries: its memory, and the time to read, write and open all of them.

The entries come by ``lanemq kv import`` from a snapshot that is made for it, and leave by
``lanemq kv export``, both as anybody would call them. At the end the broker is killed among writes.
"""

import random
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from lanemq.compat import Daemon, ServerFailed, lanemq_cluster, running
from lanemq.sdk.kv import KeyValueStore, open_kv_store
from lanemq.wire.kv import LoadedEntry, SnapshotHeader, SnapshotWriter

from .._results import disk_mib, processor_s, resident_mib
from ._results import KvSize

NAMESPACE: Final = "bench"
VALUE: Final = bytes(100)
BLOCK: Final = 5000
PAGE: Final = 100
KV: Final = (sys.executable, "-c", "from lanemq.sdk.kv.cli import kv; kv()")
PAGES: Final = 200
WRITERS: Final = 64
WRITES: Final = 30_000
"""Puts before the broker is killed: less than makes a state durable by itself."""
_REDONE: Final = re.compile(r"has followed its log: (\d+) records")
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
        rss_read_mib = resident_mib(pids)
        (daemon,) = cluster.daemons
        start_s, used_s, redone = await _killed(cluster.name_server, daemon, entries)
        say(f"started again in {start_s:.2f} s, {used_s:.2f} of the processor, {redone:,} redone")
        return KvSize(
            entries=entries,
            import_per_s=round(entries / import_s, 1),
            export_per_s=round(entries / export_s, 1),
            rss_mib=rss_mib,
            rss_read_mib=rss_read_mib,
            page_ms=round(statistics.median(pages_ms), 3),
            page_p99_ms=round(pages_ms[len(pages_ms) * 99 // 100], 3),
            disk_mib=await trio.to_thread.run_sync(disk_mib, folder / "store" / "kv"),
            start_s=round(start_s, 3),
            start_processor_s=round(used_s, 3),
            redone=redone,
        )


async def _killed(name_server: str, daemon: Daemon, entries: int) -> tuple[float, float, int]:
    """Kill a broker behind many puts, and start it again.

    Returns the seconds from there to the answer to a get of the last put, the broker's processor
    time until then, and the records redone.
    """
    numbers = iter(range(WRITES))

    async def write(store: KeyValueStore) -> None:
        for number in numbers:
            await store.put(b"written/%010d" % number, VALUE)

    store = open_kv_store(namespace=NAMESPACE, name_servers=name_server)
    async with store as opened, trio.open_nursery() as nursery:
        for _ in range(WRITERS):
            nursery.start_soon(write, opened)
    await daemon.kill()
    known = daemon.log.stat().st_size
    begun_s = trio.current_time()
    await daemon.start()
    store = open_kv_store(namespace=NAMESPACE, name_servers=name_server, timeout_s=600)
    async with store as opened:
        if await opened.get(b"written/%010d" % (WRITES - 1)) is None:
            raise ServerFailed("a put that was acknowledged is gone")
        start_s, used_s = trio.current_time() - begun_s, processor_s(daemon.pid)
        if (await opened.status()).entries != entries + WRITES:
            raise ServerFailed("entries are missing after the start")
    text = daemon.log.read_bytes()[known:].decode(errors="replace")
    return start_s, used_s, sum(int(count) for count in _REDONE.findall(text))


async def _pages(store: KeyValueStore, entries: int) -> list[float]:
    """Read pages under prefixes at random; returns how long each took, in ms, sorted."""
    rng = random.Random(1)
    taken_ms = []
    for _ in range(PAGES):
        prefix = key_of(rng.randrange(max(1, entries // PAGE)) * PAGE)[:-2]
        begun_s = trio.current_time()
        page = await store.prefix(prefix, limit=PAGE)
        count = len(page.entries)
        while page.cursor is not None and count < PAGE:  # the broker's share of a turn was used up
            page = await store.prefix(prefix, limit=PAGE - count, cursor=page.cursor)
            count += len(page.entries)
        taken_ms.append((trio.current_time() - begun_s) * 1000)
        if count != min(PAGE, entries):
            raise ServerFailed(f"{count} entries are under {prefix!r}")
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
