"""Commands fail with status 1 and one line that names the thing and the way on."""

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk.admin.cli import admin
from lanemq.sdk.admin.cli.command._text import (
    java_bytes,
    mapping,
    moment,
    moment_in_seconds,
    parse_moment,
    pretty,
)

MQADMIN_COMMANDS = {
    "updateTopic",
    "deleteTopic",
    "topicList",
    "topicRoute",
    "topicStatus",
    "clusterList",
    "brokerStatus",
    "updateSubGroup",
    "consumerProgress",
    "queryMsgById",
    "queryMsgByKey",
    "queryMsgByUniqueKey",
    "printMsg",
    "sendMessage",
    "resetOffsetByTime",
    # of 5.3
    "checkRocksdbCqWriteProgress",
    "rocksDBConfigToJson",
    "exportMetadata",
    "exportMetadataInRocksDB",
    # of 5.0.0-PREVIEW
    "updateTopicLogicalQueueMapping",
    "deleteTopicLogicalQueueMapping",
    "queryTopicLogicalQueueMapping",
    "updateTopicLogicalQueueNum",
    "migrateTopicLogicalQueue",
}
OWN_COMMANDS = {
    "deadLetters",
    "resendDeadLetters",
    "resumeMigrateTopicLogicalQueue",
    "abortMigrateTopicLogicalQueue",
    "appendSupersededMessages",
    "drainBroker",
    "forgetBroker",
    "balanceLogicalQueues",
    "passLostMessages",
    "proxyStatus",
}
NOWHERE = "127.0.0.1:1"  # nobody listens there
GROUP = ("updateSubGroup", "-n", NOWHERE, "-g", "g", "-b", NOWHERE)


@pytest.fixture(autouse=True)
def _no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def run(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(admin, args, env=env)


def test_the_commands_are_mqadmin_s() -> None:
    assert set(admin.commands) == MQADMIN_COMMANDS | OWN_COMMANDS


@pytest.mark.parametrize("command", sorted(MQADMIN_COMMANDS | OWN_COMMANDS))
def test_every_command_has_help_for_itself_and_each_of_its_options(command: str) -> None:
    result = run(command, "-h")
    assert result.exit_code == 0
    for parameter in admin.commands[command].params:
        assert getattr(parameter, "help", None), parameter.name
        long_names = [name for name in parameter.opts if name.startswith("--")]
        assert long_names, parameter.name


def test_a_command_is_found_in_any_case() -> None:
    assert run("TOPICLIST", "-h").exit_code == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["topicLst"], "did you mean topicList?"),
        (["frobnicate"], "unknown command 'frobnicate'"),
        (["topicRoute", "-n", NOWHERE], "Missing option '-t'"),
        (["topicRoute", "-n", NOWHERE, "-t", "T", "--tpic", "U"], "Did you mean '--topic'"),
        (["updateTopic", "-n", NOWHERE, "-t", "T", "-r", "many", "-b", NOWHERE], "'many'"),
        (["updateTopic", "-n", NOWHERE, "-t", "T"], "give either -b BROKER_ADDRESS or -c"),
        (["brokerStatus", "-n", NOWHERE], "give either -b BROKER_ADDRESS or -c"),
        (["topicList"], "no name server: give -n HOST:PORT or set NAMESRV_ADDR"),
        (["topicList", "-n", ";"], "no name server"),
        (["topicList", "-n", NOWHERE], "cannot reach 127.0.0.1:1"),
        (["topicList", "-n", "localhost"], "is not an address: write host:port"),
        (["printMsg", "-n", NOWHERE, "-t", "T", "-b", "noon"], "'noon' is not a number of milli"),
        (["printMsg", "-n", NOWHERE, "-t", "T", "-c", "EBCDIX"], "unknown charset 'EBCDIX'"),
        (
            ["resetOffsetByTime", "-n", NOWHERE, "-g", "g", "-t", "T", "-s", "noon"],
            "'noon' is not a number of milliseconds",
        ),
        (["sendMessage", "-n", NOWHERE, "-t", "T", "-p", "x", "-i", "1"], "Broker name must be"),
        (["queryMsgById", "-n", NOWHERE, "-i", "xyz"], "'xyz' is not a message id"),
        (["queryMsgById", "-n", NOWHERE, "-i", "A" * 32, "-g", "g"], "-d CLIENT_ID belong"),
        (["consumerProgress", "-n", NOWHERE, "-t", "T"], "give it with -g GROUP"),
        (["clusterList", "-n", NOWHERE, "-i", "1", "--json"], "leave out -i"),
        ([*GROUP, "--stages", "10,,20"], "--stages: '' is not a number: write sizes as 10,20,70"),
        ([*GROUP, "--stages", "10,x"], "--stages: 'x' is not a number: write sizes as 10,20,70"),
        ([*GROUP, "--stages", "10,-1"], "--stages: '-1' is not a number: write sizes as"),
        ([*GROUP, "--stages", "10,0"], "--stages: a stage has 1 message or more, not 0"),
        ([*GROUP, "--stages", "9" * 5000], "--stages: a size of 5000 digits is too large"),
    ],
)
def test_a_mistake_ends_with_status_1_and_says_what_to_do(args: list[str], text: str) -> None:
    result = run(*args)
    assert result.exit_code == 1
    assert text in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.output


def test_the_name_server_may_come_from_the_environment() -> None:
    result = run("topicList", env={"NAMESRV_ADDR": NOWHERE})
    assert "cannot reach 127.0.0.1:1" in result.stderr


@pytest.mark.usefixtures("utc")
def test_times_are_written_as_java_writes_them() -> None:
    assert moment(1795235799919) == "2026-11-21 04:36:39,919"
    assert moment_in_seconds(1795235799919) == "2026-11-21 04:36:39"
    assert parse_moment("2026-11-21#04:36:39:919") == 1795235799919
    assert parse_moment(" 1795235799919 ") == 1795235799919


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_is_read_as_it_is_written(milliseconds: int) -> None:
    day, time_of_day = moment(milliseconds).split(" ")
    text = f"{day}#{time_of_day.replace(',', ':')}"
    # Where clocks are set back an hour comes twice; a text cannot say which one it means.
    assert parse_moment(text) % 1000 == milliseconds % 1000
    assert moment(parse_moment(text)) == moment(milliseconds)


@pytest.mark.parametrize("text", ["", "now", "2026-11-21", "2026-13-41#25:00:00:000", "1.5"])
def test_any_other_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an existing time|yyyy-MM-dd#HH:mm:ss:SSS"):
        parse_moment(text)


def test_maps_and_bytes_are_written_as_java_writes_them() -> None:
    assert mapping({"a": 1, "b": "x y"}) == "{a=1, b=x y}"
    assert java_bytes(b"h\xc3") == "[104, -61]"


def test_pretty_json_keeps_bare_numbers_on_the_line_of_their_brace() -> None:
    assert pretty({"b": {0: "x", 1: "y"}, "a": [], "c": None}) == (
        '{\n\t"a":[],\n\t"b":{0:"x",1:"y"\n\t}\n}'
    )
