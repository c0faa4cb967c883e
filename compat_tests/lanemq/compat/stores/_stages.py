"""The stages of the upgrade to RocksDB as settings that Apache 5.3.3 and lanemq both know."""

import json
import shutil
import tarfile
from pathlib import Path

from lanemq.storage import Stage

from ..peers._build import CHECKOUT
from ..servers._apache import TEST_STORE

RECORDED_STORES = CHECKOUT / "compat_tests" / "vectors" / "stores"
# Kept in expected.json beside the sizes of files; it says how the store was made.
_NOT_SIZES = ("namesrvAddr", "storeType", "rocksdbCQDoubleWriteEnable", "timerWheelEnable")


def stage_settings(stage: Stage) -> dict[str, str]:
    """Return the keys of broker.conf that choose a stage."""
    return {
        "storeType": "defaultRocksDB" if stage is Stage.ROCKSDB else "default",
        "rocksdbCQDoubleWriteEnable": str(stage is Stage.BOTH).lower(),
    }


def recorded_store(name: str, folder: Path) -> dict[str, str]:
    """Unpack one of ``vectors/stores`` as ``folder`` and return the settings it needs.

    Files get today's date, so that no broker takes them for expired.
    """
    described = json.loads((RECORDED_STORES / f"{name}.expected.json").read_text())
    workshop = folder.with_name(f"{folder.name}.unpacking")
    with tarfile.open(RECORDED_STORES / f"{name}.tar.gz") as archive:
        archive.extractall(workshop, filter="data")
    shutil.move(workshop / name, folder)
    workshop.rmdir()
    for path in folder.rglob("*"):
        path.touch()
    sizes = {k: str(v) for k, v in described["config"].items() if k not in _NOT_SIZES}
    return {**TEST_STORE, **sizes}
