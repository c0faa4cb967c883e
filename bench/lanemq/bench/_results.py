"""Results of a bench: samples, medians, ratios, and the machine they are from.

Rates are messages per second. A ratio is lanemq's median over the other's: above 1 lanemq is
better. ``MEASURES`` are the names every bench of a broker reports under.
"""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

MEASURES = (
    *("send_1", "send_16", "send_64", "batch", "consume"),
    *("transactions_1", "transactions_16", "acl_16", "tls_16"),
)


class Machine(msgspec.Struct, frozen=True):
    """The machine that the figures are from."""

    processor: str
    processors: int
    memory_gib: float
    system: str
    python: str
    load_average: float
    """The load of the minute before the first round: a busy machine measures badly."""


class BrokerBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench broker``."""

    machine: Machine
    rounds: int
    samples: dict[str, dict[str, list[float]]]
    """Server -> measure -> one rate per round."""
    ratios: dict[str, float]
    start_s: dict[str, float]
    """Server -> seconds from spawning its processes to a route for clients."""
    rss_mib: dict[str, float]
    """Server -> resident memory of all its processes after ``messages_stored``."""
    messages_stored: int
    acl_to_plain: dict[str, float]
    """Server -> its median of acl_16 over that of send_16: 1 where checking costs nothing."""


class StagedBench(msgspec.Struct, frozen=True):
    """The cost of stages; part of the JSON of ``lanemq bench sdk``."""

    rates: dict[str, list[float]]
    """"concurrent" and "staged" -> messages per second, one for each round."""
    processor_us: dict[str, list[float]]
    """The same: what the client's process spent on a message, in microseconds. Other work on the
    machine, the broker's too, changes it less than it does the rates."""
    overhead: float
    """The staged listener's extra cost per message, as a fraction of the other's: by the medians of
    ``processor_us``."""
    example_s: list[float]
    """Seconds that the proposal's example of six seconds took, one for each round."""


class SdkBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench sdk``."""

    machine: Machine
    rounds: int
    samples: dict[str, dict[str, list[float]]]
    """Client -> measure -> one rate per round."""
    ratios: dict[str, dict[str, float]]
    """Other client -> measure -> lanemq's median over its."""
    processor_us: dict[str, dict[str, list[float]]]
    """Client -> measure -> what its process spent on a message, opening and closing included, in
    microseconds; one for each round."""
    processor_ratios: dict[str, dict[str, float]]
    """Face of the SDK -> measure -> the Java client's median of ``processor_us`` over its: above 1
    the face spends less."""
    missing: dict[str, str]
    """Clients that could not be measured -> why."""
    staged: StagedBench


class QueuesMode(msgspec.Struct, frozen=True):
    """One broker with very many queues."""

    made_s: float
    """Seconds to write a message into every queue of a new store."""
    disk_mib: float
    start_s: float
    """Seconds from spawning the broker to its first answer, after a clean stop."""
    rss_mib: float
    """Its resident memory then."""
    read_s: float
    """Seconds to read some thousand queues, one after the other."""
    read_rss_mib: float
    stop_s: float
    start_after_kill_s: float
    rss_after_kill_mib: float


class QueuesBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench million-queues``."""

    machine: Machine
    queues: int
    queues_per_topic: int
    modes: dict[str, QueuesMode]
    """"files" and "rocksdb" -> its figures."""


def median_ratios(
    samples: Mapping[str, Mapping[str, Sequence[float]]], *, ours: str, theirs: str
) -> dict[str, float]:
    """Divide our medians by theirs, measure by measure."""
    return {
        measure: round(
            statistics.median(samples[ours][measure]) / statistics.median(samples[theirs][measure]),
            3,
        )
        for measure in samples[ours]
    }


def acl_to_plain(samples: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Divide each server's median with accounts by the one without."""
    return {
        server: round(statistics.median(rates["acl_16"]) / statistics.median(rates["send_16"]), 3)
        for server, rates in samples.items()
    }


def this_machine() -> Machine:
    """Describe the machine this runs on."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        processor=_processor(),
        processors=len(os.sched_getaffinity(0)),
        memory_gib=round(memory_bytes / (1 << 30), 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load_average=round(os.getloadavg()[0], 2),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def resident_mib(process_ids: Sequence[int]) -> float:
    """Return the resident memory of some processes together, in MiB."""
    total_kib = 0
    for process_id in process_ids:
        status = Path(f"/proc/{process_id}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        total_kib += int(line.split()[1])
    return round(total_kib / 1024, 1)


def processor_s(process_id: int) -> float:
    """Return the processor time that a process has used so far."""
    state = Path(f"/proc/{process_id}/stat").read_text()
    ticks = state.rpartition(")")[2].split()[11:13]  # user's and system's
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def disk_mib(folder: Path) -> float:
    """Return the bytes of disk that the files of a folder occupy; holes take none."""
    total = sum(
        (Path(root) / name).lstat().st_blocks
        for root, _, names in os.walk(folder)
        for name in names
    )
    return round(total * 512 / (1 << 20), 1)
