"""Large blocks that are freed go back to the system, wherever small ones lie between them."""

import platform
import subprocess
import sys

import pytest

from lanemq.proxy.net.limits._allocator import MAPPED_BYTES

PROGRAM = f"""
import sys
from lanemq.proxy.net.limits._allocator import map_large_blocks

def resident_bytes():
    with open("/proc/self/statm") as lines:
        return int(lines.read().split()[1]) * 4096

if sys.argv[1] == "set":
    assert map_large_blocks()
bytes(24 << 20)  # the first large one that is freed raises a threshold that is not set
before = resident_bytes()
large, small = [], []
for number in range(64):
    large.append(bytearray(b"x" * {2 * MAPPED_BYTES}))
    small.append(bytearray(b"y" * 100_000))
large.clear()
print(resident_bytes() - before)
"""


def kept_bytes(how: str) -> int:
    """Return what a process keeps of 128 MiB in large blocks that were freed, and 6 in small."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has such a threshold")
def test_large_blocks_leave_no_holes() -> None:
    assert kept_bytes("set") < 16 << 20
