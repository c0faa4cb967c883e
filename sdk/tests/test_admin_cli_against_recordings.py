"""Given the answers that mqadmin got from a real cluster, the commands print what it printed.

Lines that mqadmin writes in no particular order (it prints hash tables) are compared sorted.
"""

import gzip
import json
import re
import stat
from base64 import b64decode
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lanemq.sdk import RefusedByBroker
from lanemq.sdk.admin import _client
from lanemq.sdk.admin.cli import admin
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame, decode_frame
from lanemq.wire.message import STAGE_PREFIX

FRAMES = Path(__file__).parents[2] / "compat_tests" / "vectors" / "frames"

# What tells requests of one code apart; the rest (signatures, defaults) does not matter.
TELLING = (
    "topic",
    "group",
    "consumerGroup",
    "groupName",
    "queueId",
    "offset",
    "commitOffset",
    "key",
    "namespace",
    "timestamp",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "order",
    "topicFilterType",
)


def what(frame: Frame) -> tuple[object, ...]:
    fields = {name: frame.fields[name] for name in TELLING if frame.fields.get(name, "-1") != "-1"}
    return frame.code, tuple(sorted(fields.items()))


class Recording:
    """A cluster that knows the answers of one recording, and nothing else.

    Of several answers to one request it gives one after the other, or only the last.
    """

    def __init__(self, name: str, *, only_last: bool) -> None:
        self._only_last = only_last
        self._answers: dict[tuple[object, ...], list[Frame]] = defaultdict(list)
        asked: dict[tuple[int, int], Frame] = {}
        with gzip.open(FRAMES / f"{name}.jsonl.gz", "rt") as lines:
            for line in lines:
                entry = json.loads(line)
                frame = decode_frame(b64decode(entry["frame"])[4:])
                key = entry["conn"], frame.opaque
                if entry["dir"] == "c2s" and not frame.is_response:
                    asked[key] = frame
                elif entry["dir"] == "s2c" and frame.is_response and key in asked:
                    self._answers[what(asked.pop(key))].append(frame)

    async def call(
        self, address: str, frame: Frame, timeout_s: float, *, accept: Container[int] = (0,)
    ) -> Frame:
        if frame.fields.get("consumerGroup", "").startswith(STAGE_PREFIX):
            return frame.reply(ResponseCode.QUERY_NOT_FOUND)  # mqadmin never asks for these
        answers = self._answers[what(frame)]
        assert answers, f"not in the recording: {RequestCode(frame.code).name} {frame.fields}"
        answer = answers[-1] if self._only_last or len(answers) == 1 else answers.pop(0)
        if answer.code not in accept:
            raise RefusedByBroker(answer.code, answer.remark, address)
        return answer


def steps(name: str) -> dict[str, list[tuple[list[str], str]]]:
    """Command -> arguments and printed text of each call, as the recording has them."""
    found: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
    for line in (FRAMES / f"{name}.results.jsonl").read_text().splitlines():
        step = json.loads(line)
        found[step["args"][0]].append((step["args"], step["output"]))
    return found


@pytest.fixture
def run(utc: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    def run(recording: str, args: list[str], *, only_last: bool = False) -> Result:
        cluster = Recording(recording, only_last=only_last)

        @asynccontextmanager
        async def open_recording(**_: object) -> AsyncIterator[Recording]:
            yield cluster

        monkeypatch.setattr(_client, "open_remoting_client", open_recording)
        monkeypatch.setenv("HOME", str(tmp_path))
        return CliRunner().invoke(admin, args)

    return run


def tidy(text: str) -> list[str]:
    """Cut a text into lines, without what differs from run to run or is in no order."""
    text = re.sub(r"(?<=\])create topic", "\ncreate topic", text)  # 4.9 forgets to end a line
    text = text.replace("]MessageTrack", "]\nMessageTrack")  # and here
    text = re.sub(r"(Message Body Path: +)\S+", r"\1PATH", text)
    text = re.sub(r"^(commitLogDiskRatio_)\S+?(: .*)$", r"\1PATH\2", text, flags=re.M)
    lines = []
    for line in text.splitlines():
        properties = re.fullmatch(r"(Properties: +)\{(.*)\}", line)
        if properties is not None:
            line = properties[1] + ", ".join(sorted(properties[2].split(", ")))
        lines.append(line.rstrip())
    return [line for line in lines if line]


SAME_ORDER = ["updateTopic", "topicRoute", "topicStatus", "updateSubGroup", "deleteTopic"]
ANY_ORDER = [
    "topicList",
    "consumerProgress",
    "queryMsgById",
    "queryMsgByKey",
    "queryMsgByUniqueKey",
    "resetOffsetByTime",
]


@pytest.mark.parametrize("command", SAME_ORDER + ANY_ORDER)
def test_what_mqadmin_4_9_7_printed_is_printed(run: Callable[..., Result], command: str) -> None:
    for args, printed in steps("tools497")[command]:
        result = run("tools497", args)
        assert result.exit_code == 0, result.output
        lines, expected = tidy(result.stdout), tidy(printed)
        if command in ANY_ORDER:
            lines, expected = sorted(lines), sorted(expected)
        assert lines == expected


def test_the_load_of_a_cluster_is_printed_in_the_same_columns(run: Callable[..., Result]) -> None:
    [(args, printed)] = steps("tools497")["clusterList"]
    result = run("tools497", args)
    title, row = tidy(result.stdout)
    expected_title, expected_row = tidy(printed)
    assert title == expected_title
    hours = r"\d+\.\d\d(?= 0\.1500$)"  # how long ago 1970 was
    assert re.sub(hours, "HOURS", row) == re.sub(hours, "HOURS", expected_row)


def test_a_broker_s_report_is_printed_key_by_key(run: Callable[..., Result]) -> None:
    [(args, printed)] = steps("tools497")["brokerStatus"]
    result = run("tools497", args, only_last=True)
    lines, expected = tidy(result.stdout), tidy(printed)
    assert [line for line in lines if "_PATH" not in line] == [
        line for line in expected if "_PATH" not in line
    ]


@pytest.mark.parametrize("command", [*SAME_ORDER, *ANY_ORDER, "clusterList", "brokerStatus"])
def test_the_answers_of_5_3_3_are_printed_in_the_columns_of_4_9(
    run: Callable[..., Result], command: str
) -> None:
    titles = {
        line
        for args, printed in steps("tools497")[command]
        for line in tidy(printed)
        if line.startswith("#")
    }
    for args, _ in steps("tools533")[command]:
        result = run("tools533", args)
        if command == "deleteTopic":  # that broker ran without what it needs for it
            assert result.exit_code == 1
            assert "refused with 1 (SYSTEM_ERROR)" in result.output
            continue
        assert result.exit_code == 0, result.output
        if command != "resetOffsetByTime":  # 5.3.3 resets by itself, and so the other way
            assert {line for line in tidy(result.stdout) if line.startswith("#")} <= titles


@pytest.mark.parametrize("recording", ["tools497", "tools533"])
@pytest.mark.parametrize("command", [*SAME_ORDER[:4], *ANY_ORDER, "clusterList", "brokerStatus"])
def test_every_command_prints_one_json_value_on_demand(
    run: Callable[..., Result], recording: str, command: str
) -> None:
    for args, _ in steps(recording)[command]:
        result = run(recording, [*args, "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)


BY_ID = ["queryMsgById", "queryMsgByUniqueKey"]


@pytest.mark.parametrize("command", BY_ID)
def test_a_body_is_written_for_its_user_alone_under_the_offset_id(
    run: Callable[..., Result], command: str, tmp_path: Path
) -> None:
    for args, _ in steps("tools497")[command]:
        for _ in range(2):  # the second replaces the file of the first
            result = run("tools497", args)
            assert result.exit_code == 0, result.output
            found = re.search(r"Message Body Path: +(\S+)", result.stdout)
            assert found is not None
            path = Path(found[1])
            assert path.parent == tmp_path / ".lanemq" / "msgbodys"
            assert re.fullmatch(r"[0-9A-F]{32}(_\d+)?", path.name)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("step", [".lanemq", ".lanemq/msgbodys", "file"])
@pytest.mark.parametrize("command", BY_ID)
def test_no_body_is_written_through_a_link(
    run: Callable[..., Result], command: str, step: str, tmp_path: Path
) -> None:
    args, _ = steps("tools497")[command][0]
    found = re.search(r"Message Body Path: +(\S+)", run("tools497", args).stdout)
    assert found is not None
    other = tmp_path / "other"
    if step == "file":
        other.write_bytes(b"of another user")
        Path(found[1]).unlink()
        Path(found[1]).symlink_to(other)
        assert run("tools497", args).exit_code == 0
        assert other.read_bytes() == b"of another user"
        assert not Path(found[1]).is_symlink()
        return
    (tmp_path / step).rename(tmp_path / "old")
    (other / "msgbodys").mkdir(parents=True)
    (tmp_path / step).symlink_to(other)
    result = run("tools497", args)
    assert result.exit_code == 1
    assert "cannot write the body" in result.output
    assert "it is a link or no directory" in result.output
    assert [path for path in other.rglob("*") if path.is_file()] == []
