"""A broker's file that is given to the store tools is read as a broker's start reads it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.cli._group import lanemq
from lanemq.testkit.storage.stages import Stand, new_message

APACHE_CONF = """
# As Apache's distribution has it, for a slave of two.
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=1
deleteWhen=04
fileReservedTime=48
brokerRole=SLAVE
flushDiskType=ASYNC_FLUSH
haListenPort=10912
sendMessageThreadPoolNums=16
rocketmqHome=/opt/rocketmq
tls.server.certPath=/etc/rocketmq/not-here.pem
"""
COMMANDS = ("inspect", "verify", "repair", "verify-kv")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    async def fill() -> None:
        async with stand.open(1) as store:
            for number in range(10):
                store.put(new_message(number, topic="T", queue_id=0))
            store.commit()

    stand = Stand(tmp_path / "store")
    trio.run(fill)
    return stand.root


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Callable[[str, str], Result]:
    """``run("verify", "key=value")``: a store command with such a file, ``broker.conf``."""

    def run(command: str, text: str) -> Result:
        path = tmp_path / "broker.conf"
        path.write_text(text)
        return CliRunner().invoke(lanemq, ["store", command, str(root), "-c", str(path)])

    return run


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "line",
    [
        "maxHashSlotNumm=7",
        "maxHashSlotNum=many",
        "maxIndexNum=0",
        "enableLmq=yes",
        "messageDelayLevel=1s 5x",
        "messageDelayLevel=",
        "storeType=rocks",
        "\\uXYZ=1",
    ],
)
def test_what_a_start_refuses_the_tools_refuse_in_the_same_words(
    line: str, command: str, run: Callable[[str, str], Result], tmp_path: Path
) -> None:
    done = run(command, f"{line}{os.linesep}")
    assert done.exit_code == 2
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(tmp_path / "broker.conf")
    assert done.stderr == f"Error: {refused.value}{os.linesep}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_apache_is_taken_and_a_warning_names_what_is_not_used(
    command: str,
    run: Callable[[str, str], Result],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    done = run(command, APACHE_CONF)
    assert done.exit_code == 0, done.output
    (warning,) = caplog.messages
    assert warning == (
        f"{tmp_path / 'broker.conf'}: lanemq does not use haListenPort, sendMessageThreadPoolNums"
    )


def test_a_file_that_is_not_there_is_named(root: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.conf"
    done = CliRunner().invoke(lanemq, ["store", "verify", str(root), "-c", str(missing)])
    assert done.exit_code == 2
    assert done.stderr == f"Error: cannot read {missing}: No such file or directory{os.linesep}"
