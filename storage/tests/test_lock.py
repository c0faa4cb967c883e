"""One store, one process."""

import subprocess
import sys
from pathlib import Path

import pytest

from lanemq.storage import StoreConfig, StoreLocked, open_store

OPEN_AND_WAIT = """
import sys, trio
from pathlib import Path
from lanemq.storage import StoreConfig, open_store

async def main():
    async with open_store(StoreConfig(root=Path(sys.argv[1]))):
        print("open", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)

trio.run(main)
"""


def times(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


async def test_a_second_process_is_refused_before_it_touches_anything(tmp_path: Path) -> None:
    config = StoreConfig(root=tmp_path)
    command = [sys.executable, "-c", OPEN_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(  # noqa: ASYNC220 - it is talked to before anything runs
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        before = times(tmp_path)
        with pytest.raises(StoreLocked, match=rf"process {other.pid} holds {tmp_path}/lock"):
            async with open_store(config):
                pass
        assert times(tmp_path) == before
        other.stdin.write("\n")
        other.stdin.flush()
        other.wait(timeout=30)
    async with open_store(config):
        assert (tmp_path / "lock").read_bytes() == b"lock"


async def test_an_open_store_keeps_other_processes_out(tmp_path: Path) -> None:
    async with open_store(StoreConfig(root=tmp_path)):
        result = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
            [sys.executable, "-c", OPEN_AND_WAIT, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert result.returncode != 0
        assert "StoreLocked" in result.stderr


async def test_a_second_store_of_this_process_is_refused_and_the_first_keeps_its_lock(
    tmp_path: Path,
) -> None:
    config = StoreConfig(root=tmp_path)
    async with open_store(config) as store:
        for _ in range(2):
            with pytest.raises(StoreLocked):
                async with open_store(config):
                    pass
        assert store.writable
    async with open_store(config) as store:
        assert store.writable
