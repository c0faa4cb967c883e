"""Newer Pythons run the servers, the tools and all three faces of the SDK, as users install them.

``make test-pythons`` runs the tests of the parts there, too.
"""

import subprocess
from pathlib import Path

import pytest

from lanemq.testkit.peers import missing
from lanemq.testkit.pythons import REQUIRED, interpreter
from lanemq.testkit.servers import patient

ROOT = Path(__file__).parents[2]

ROUND_TRIP = """
import asyncio, pathlib, subprocess, sys
from lanemq.sdk import ConsumeFrom, Message
from lanemq.sdk.aio import ConcurrentListener, open_producer, open_push_consumer

bin, examples, data = map(pathlib.Path, sys.argv[2:])

async def round_trip(name_servers):
    seen = asyncio.Queue()
    async def handle(messages):
        for message in messages:
            seen.put_nowait(message.body)
    async with open_producer("p", name_servers=name_servers) as producer:
        await producer.send(Message(topic="T", body=b"by asyncio"))
    async with open_push_consumer(
        "g", name_servers=name_servers, subscriptions={"T": "*"},
        listener=ConcurrentListener(handle), consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        print((await asyncio.wait_for(seen.get(), 60)).decode())

command = [bin / "lanemq", "serve", "--port", "0", "--http-port", "0", "--data", data]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    address = next(line.split()[2] for line in server.stdout if line.startswith("name server"))
    while server.stdout.readline() != "ready\\n":
        pass
    patient = sys.argv[1].replace("ADDRESS", address)
    for example in "quickstart.py", "blocking.py":
        subprocess.run([sys.executable, examples / example, patient], check=True, timeout=600)
    asyncio.run(round_trip(patient))
    subprocess.run([bin / "lanemq", "kv", "create", "-n", address], check=True, timeout=300)
    subprocess.run([bin / "lanemq", "kv", "put", "k", "v", "-n", address], check=True, timeout=300)
    server.terminate()
print("server ended by", server.returncode)
for task in ["convert", "--to", "rocksdb"], ["verify"]:
    done = [bin / "lanemq", "store", task[0], data, *task[1:]]
    subprocess.run(done, check=True, timeout=300)
"""


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", REQUIRED)
def test_all_of_it_works_with_a_newer_python(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        missing(f"no Python {version} on PATH, of pyenv or of uv")
    home = tmp_path / "home"
    run(python, "-m", "venv", home)
    pip = (home / "bin" / "python", "-m", "pip", "install", "--quiet")
    run(*pip, "--constraint", ROOT / "constraints.txt", f"{ROOT}[server]")
    script = tmp_path / "round_trip.py"
    script.write_text(ROUND_TRIP)
    arguments = (patient("ADDRESS"), home / "bin", ROOT / "examples", tmp_path / "data")
    printed = run(home / "bin" / "python", "-W", "error", script, *arguments)
    for line in ("all ten are there", "by asyncio", "server ended by 0", "version 1"):
        assert line in printed
