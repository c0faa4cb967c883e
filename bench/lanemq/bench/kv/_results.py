"""Results of ``lanemq bench kv``."""

import msgspec

from .._results import Machine

KV_MEASURES = ("put_1", "put_64", "get_1", "get_64", "cas_1", "cas_64")


class KvSize(msgspec.Struct, frozen=True):
    """A broker with very many entries of 100 bytes."""

    entries: int
    import_per_s: float
    """Entries per second of ``lanemq kv import``, from its start to its end."""
    export_per_s: float
    rss_mib: float
    """The broker's resident memory after the import."""
    rss_read_mib: float
    """The same after the export and the pages."""
    page_ms: float
    """Median of a page of 100 entries under a prefix, as a client sees it, in milliseconds."""
    page_p99_ms: float
    disk_mib: float
    start_s: float = 0.0
    """From the start of the broker, killed among writes, to its first answer to a get."""
    start_processor_s: float = 0.0
    """The broker's processor time until then, in seconds; other work on the machine changes it
    little."""
    redone: int = 0
    """Records that this start applied again."""


class KvBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench kv``."""

    machine: Machine
    rounds: int
    samples: dict[str, dict[str, list[float]]]
    """Server -> measure -> operations per second, one for each round."""
    p99_us: dict[str, dict[str, list[float]]]
    """The same: the 99th percentile of the times of one operation, in microseconds."""
    processor_us: dict[str, dict[str, list[float]]]
    """The same: processor time of the server for each operation, in microseconds; other work on
    the machine changes it little."""
    processor_ratios: dict[str, float]
    """Measure -> etcd's median of that over lanemq's: above 1 lanemq needs less."""
    ratios: dict[str, float]
    """Measure -> lanemq's median over etcd's; empty where etcd could not be measured."""
    missing: dict[str, str]
    """Servers that could not be measured -> why."""
    size: KvSize | None = None
    """Figures with very many entries, where they were asked for."""
