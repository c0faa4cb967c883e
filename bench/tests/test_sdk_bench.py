"""The bench of the SDK: what its client program does, and one short run against the real thing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from click.testing import CliRunner
from rich.console import Console

from lanemq.bench._results import Machine, SdkBench, StagedBench
from lanemq.bench.cli import bench, show_sdk_bench
from lanemq.bench.clients._faces_client import FACES as OTHER_FACES
from lanemq.bench.clients._sdk import FACES, JAVA, MEASURES, PYROCKETMQ
from lanemq.bench.clients._sdk_client import answer
from lanemq.compat import CommandRefused, Control

RESULT = SdkBench(
    machine=Machine("a processor", 2, 7.7, "Linux", "3.11", 0.1),
    rounds=3,
    samples={
        "lanemq": {measure: [300.0, 200.0, 100.0] for measure in MEASURES},
        JAVA: {measure: [100.0, 50.0, 160.0] for measure in MEASURES},
    },
    ratios={JAVA: dict.fromkeys(MEASURES, 2.0)},
    processor_us={
        "lanemq": {measure: [30.0, 20.0, 10.0] for measure in MEASURES},
        JAVA: {measure: [40.0, 50.0, 45.0] for measure in MEASURES},
    },
    processor_ratios={"lanemq": dict.fromkeys(MEASURES, 2.25)},
    missing={PYROCKETMQ: "not installable: no package index"},
    staged=StagedBench(
        rates={"concurrent": [1000.0], "staged": [950.0]},
        processor_us={"concurrent": [8.0], "staged": [8.4]},
        overhead=0.05,
        example_s=[6.012, 6.1, 6.05],
    ),
)
SERVE = "from lanemq.proxy.cli import main; main()"


def test_people_see_medians_ranges_ratios_and_who_is_missing() -> None:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        show_sdk_bench(console, RESULT)
    shown = capture.get()
    assert "send_64" in shown
    assert "2.00" in shown
    assert "100 - 300" in shown
    assert "45.0" in shown
    assert "2.25" in shown
    assert f"{PYROCKETMQ}: not installable" in shown
    assert "staged listener: 950 messages/s, 8.4 us of its process each" in shown
    assert "what stages cost: 5.0%; the proposal's example of six seconds: 6.050 s" in shown


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("serve")
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--json"]
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(
            [*command, "--data", str(folder / "data")], stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        yield msgspec.json.decode(process.stdout.readline())["namesrv"]
        process.terminate()
        assert process.wait(300) == 0


def ask(command: str, **arguments: object) -> dict[str, Any]:
    return answer(msgspec.json.encode({"id": 7, "command": command, **arguments}))


@pytest.mark.slow
def test_the_client_program_sends_and_consumes(name_server: str) -> None:
    count = 0
    for _ in range(60):  # on a busy machine a second may be over with the first of each
        sent = ask("send", name_server=name_server, topic="T", threads=3, seconds=1)
        assert sent["id"] == 7
        assert sent["result"]["messages"] >= 3
        assert 1 <= sent["result"]["seconds"] < 60
        count += sent["result"]["messages"] + 1  # one before the clock runs
        if sent["result"]["messages"] > 3:
            break
    else:
        pytest.fail("nobody ever sent a second message")
    read = ask("consume", name_server=name_server, topic="T", group="g", count=count)
    assert read["result"]["messages"] == count
    assert read["result"]["seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("face", ["blocking", "aio"])
def test_the_programs_of_the_other_faces_send_and_consume(name_server: str, face: str) -> None:
    def ask_face(command: str, **arguments: object) -> dict[str, Any]:
        line = msgspec.json.encode({"id": 7, "command": command, **arguments})
        found: dict[str, Any] = answer(line, OTHER_FACES[face])["result"]
        return found

    place = {"name_server": name_server, "topic": f"F-{face}"}
    sent = ask_face("send", **place, threads=3, seconds=0.2)
    assert sent["messages"] >= 3
    read = ask_face("consume", **place, group=face, count=sent["messages"] + 1)
    assert read["messages"] == sent["messages"] + 1


@pytest.mark.slow
def test_the_client_program_consumes_in_stages(name_server: str) -> None:
    sent = ask("send", name_server=name_server, topic="S", threads=1, seconds=0.1)
    count = sent["result"]["messages"] + 1
    place = {"name_server": name_server, "topic": "S", "group": "stages"}
    read = ask("consume", **place, count=count, stages=[2, 3])
    assert read["result"]["messages"] == count
    trio.run(Control(name_server).create_topic, "S1", 1)
    place = {"name_server": name_server, "topic": "S1", "group": "example"}
    staged = ask("stages", **place, stages=[1, 2], takes_s=0.1)
    assert staged["result"]["messages"] == 3


def test_the_client_program_says_what_went_wrong() -> None:
    failed = ask("send", name_server="127.0.0.1:1", topic="T", threads=1, seconds=0.1)
    assert (failed["id"], failed["error"], failed["code"]) == (7, "BrokerUnreachable", -1)
    assert "127.0.0.1:1" in failed["message"]
    assert ask("dance")["error"] == "KeyError"


def test_a_client_that_fails_ends_the_bench_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> SdkBench:
        error = CommandRefused("send", "IllegalStateException", -1, "1 of 64 threads failed")
        error.add_note("measuring send_64")
        raise ExceptionGroup("a nursery", [ExceptionGroup("another", [error])])

    monkeypatch.setattr("lanemq.bench.cli.bench_sdk", fail)
    result = CliRunner().invoke(bench, ["sdk"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "1 of 64 threads failed" in result.output
    assert "measuring send_64" in result.output
    assert "Traceback" not in result.output


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_short_run_measures_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lanemq.bench.clients._sdk.STORED", 10_000)
    arguments = ["sdk", "--rounds", "1", "--seconds", "1", "--warm-up", "0.3", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    clients = {*FACES, JAVA, PYROCKETMQ} - set(printed["missing"])
    assert set(printed["samples"]) == clients
    assert set(printed["ratios"]) == clients - {"lanemq"}
    for ratios in printed["ratios"].values():
        assert set(ratios) == set(MEASURES)
        assert all(ratio > 0 for ratio in ratios.values())
    assert set(printed["processor_ratios"]) == set(FACES)
    assert set(printed["processor_us"]) == clients
    staged = printed["staged"]
    assert all(len(rates) == 1 for rates in staged["rates"].values())
    assert staged["example_s"][0] >= 6
