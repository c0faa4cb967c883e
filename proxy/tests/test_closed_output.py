"""Commands whose output nobody reads to the end: they end as ``cat`` does, without a word."""

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lanemq.testkit.storage.stores import STORES

pytestmark = pytest.mark.slow  # every test starts Python again

RUN = [sys.executable, "-c", "from lanemq.proxy.cli import main; main()"]
STORE = "file-4.9.7-killed"
END_S = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with tarfile.open(STORES / f"{STORE}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / STORE


def test_a_dump_whose_reader_has_enough_ends_quietly_and_lets_the_store_go(store: Path) -> None:
    process = subprocess.Popen(
        [*RUN, "store", "dump", str(store), "--from-log", "-n", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b'{"topic":')
    process.stdout.close()  # far more is left than a pipe holds
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(END_S) == -signal.SIGPIPE


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["admin", "--help"],
        ["store", "inspect", "STORE"],
        ["store", "verify", "STORE", "--json"],
        ["store", "export-metadata", "STORE"],
        ["namesrv", "--host", "127.0.0.1", "--port", "0"],
    ],
    ids=" ".join,
)
def test_any_command_whose_output_nobody_reads_ends_quietly(
    command: list[str], store: Path
) -> None:
    given = [str(store) if word == "STORE" else word for word in command]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*RUN, *given], stdout=writer, stderr=subprocess.PIPE, timeout=END_S, check=False
    )
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE
    assert b"Error" not in done.stderr
    assert b"Traceback" not in done.stderr
