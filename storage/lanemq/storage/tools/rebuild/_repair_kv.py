"""The repair of key-value states: what cannot be read goes, and the next start makes it again."""

from pathlib import Path
from typing import Final

from ..._clock import system_clock_ms
from ..._config import KvEngine, StoreConfig
from ..._errors import StoreCorrupted
from ...disk._real_files import RealFiles
from ...kv.engines._memory import FILE_NAME, MemoryEngine
from ...kv.engines._opening import DIRECTORY, ROCKS_DIRECTORY, EngineOpener
from ..checks._findings import Finding, Part, Severity
from ..checks._kv_check import judge_bases
from ..reading._kv_rows import unreadable_states
from ._repair_report import Action

WAY_ON: Final = "repair the store with `repair_store`: the next start makes it of the log"


def kv_damage(root: Path) -> tuple[list[Finding], list[str]]:
    """Read every row of the states; returns what is wrong, and the partitions. Nothing is changed.

    A database that cannot be opened has the partition ``""``. Bases of partitions are read, and
    left alone. Raises ``OSError``.
    """
    bases = list(judge_bases(root))
    damaged: dict[str, str] = {}
    try:
        if (root / DIRECTORY / ROCKS_DIRECTORY).is_dir():
            damaged = unreadable_states(root)
        elif (root / DIRECTORY / FILE_NAME).exists():
            MemoryEngine(RealFiles(), root / DIRECTORY)
    except StoreCorrupted as error:
        return [*bases, _finding(str(error))], [""]
    found = [_finding(f"namespace {name}: {why}") for name, why in damaged.items()]
    return bases + found, list(damaged)


def kv_actions(damaged: list[str]) -> list[Action]:
    """Return the steps that repair damaged partitions."""
    if not damaged:
        return []
    what = f"remove the states of {', '.join(damaged)}, which the next start makes of their logs"
    if "" in damaged:
        what = "make the files of keys again with the states that are whole"
    return [Action(Part.KV, what, len(damaged))]


def repair_kv(root: Path, damaged: list[str]) -> None:
    """Remove damaged states; the files stay beside. Raises ``OSError``, ``StoreError``."""
    from ...kv.engines._rocks import RocksEngine

    if not damaged:
        return
    in_rocks = (root / DIRECTORY / ROCKS_DIRECTORY).is_dir()
    engine_kind = KvEngine.ROCKSDB if in_rocks else KvEngine.MEMORY
    config = StoreConfig(root=root, kv_engine=engine_kind)
    opener = EngineOpener(config, files=RealFiles(), clock_ms=system_clock_ms)
    if "" in damaged:
        opener.open().close()
        return
    opener.keep_files()
    engine = RocksEngine(root / DIRECTORY / ROCKS_DIRECTORY, compacts=False)
    try:
        for name in damaged:
            engine.replace(name)
    finally:
        engine.close()


def _finding(what: str) -> Finding:
    return Finding(kind="kv", severity=Severity.PROBLEM, part=Part.KV, what=what, way_on=WAY_ON)
