"""The demo tells the truth with its exit status."""

import importlib.util
import re
import shutil
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from lanemq.compat import PeersMissing
from lanemq.compat.demo._demo import run_demo
from lanemq.compat.demo._drain import Drained
from lanemq.compat.demo._migration import Moved
from lanemq.compat.demo._spark import ReadBySpark, show_read
from lanemq.compat.demo._stages import STAGES, Staged


async def shown_by_demo() -> tuple[int, str]:
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture:
        status = await run_demo(console)
    return status, capture.get()


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.usefixtures("java")
async def test_java_and_python_understand_each_other() -> None:
    status, shown = await shown_by_demo()
    assert status == 0, shown
    assert shown.count("3 of 3") == 3
    assert shown.count("equal") == 3
    assert re.search(r"order between stages +│ kept", shown)
    assert re.search(r"compare and set, twice +│ done, refused", shown)
    assert re.search(r"a watch from the begin +│ hello, good day", shown)
    assert "a queue that moves" in shown
    assert "broker-a -> broker-b -> broker-a" in shown
    assert "Java 4.9.7" in shown
    assert "unnoticed" in shown
    assert "an Apache broker that is drained" in shown
    assert "Java 3.2.6" in shown
    assert shown.count("unnoticed") == 2
    assert re.search(r"\(lost 0, twice 0\)", shown)
    if importlib.util.find_spec("pyspark") is None:
        assert "without Spark: lanemq[spark] is not installed" in shown
    else:
        found = re.search(r"Spark read ([\d,]+) rows from the store, all there are", shown)
        assert found is not None, shown
        assert int(found[1].replace(",", "")) > 3 * 3


@pytest.mark.slow
async def test_without_a_jdk_the_demo_shows_python_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("LANEMQ_REQUIRE_PEERS", raising=False)
    status, shown = await shown_by_demo()
    assert status == 0, shown
    assert shown.count("3 of 3") == 1
    assert "broker-a -> broker-b -> broker-a" in shown
    assert "unnoticed" in shown
    assert "without Java: JDK 17" in shown
    assert "not shown: an Apache broker that is drained behind lanemq proxy" in shown


async def test_without_a_jdk_that_is_required_the_demo_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("LANEMQ_REQUIRE_PEERS", "1")
    with pytest.raises(PeersMissing, match="JDK 17"):
        await shown_by_demo()


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "unnoticed"),
        ({"numbers": (0, 2), "offsets": (0, 2)}, "1 messages lost, offsets with holes"),
        ({"numbers": (0, 1, 1, 2), "offsets": (0, 1, 1, 2)}, "1 messages twice"),
        ({"numbers": (0, 2, 1)}, "another order"),
        ({"offsets": (0, 1, 3)}, "offsets with holes"),
        ({"queues": ((0, 1), (0,))}, "other queues"),
        ({"brokers": ("broker-a",) * 3}, "it stayed where it was"),
    ],
)
def test_whatever_a_client_notices_of_a_move_is_named(
    changed: dict[str, Any], verdict: str
) -> None:
    moved = Moved(
        client="Java",
        brokers=("broker-a", "broker-b", "broker-a"),
        sent=3,
        numbers=(0, 1, 2),
        offsets=(0, 1, 2),
        queues=((0, 1), (0, 1)),
        longest_s=0.1,
    )
    assert replace(moved, **changed).verdict == verdict


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "unnoticed"),
        ({"received": (0, 2)}, "1 messages lost"),
        ({"received": (0, 2, 1, 2)}, "1 messages twice"),
        ({"refused": 3}, "3 sends failed"),
        ({"queues": (("a 0", "b 0"), ("b 0",))}, "other queues"),
    ],
)
def test_whatever_a_client_notices_of_a_drain_is_named(
    changed: dict[str, Any], verdict: str
) -> None:
    queues = ("a 0", "b 0"), ("a 0", "b 0")
    assert replace(Drained("b", "a", 3, 0, (0, 2, 1), queues, 0.1), **changed).verdict == verdict


def in_stages(**changed: tuple[float, float]) -> Staged:
    """Stages 0-1, 2-4 and 5-11, each a second long, but for messages that took other times."""
    times = {
        number: (float(stage), stage + 1.0)
        for number, stage in enumerate(
            stage for stage, size in enumerate(STAGES) for _ in range(size)
        )
    }
    times |= {int(name.removeprefix("message")): at for name, at in changed.items()}
    return Staged(tuple((number, *at) for number, at in times.items()))


def test_the_demo_says_whether_stages_kept_their_order() -> None:
    assert in_stages().verdict == "kept"
    assert in_stages().took_s == 3.0
    assert in_stages(message4=(0.9, 2.0)).verdict == "message 2 and on began too early"
    assert in_stages(message3=(1.0, 2.5)).verdict == "message 5 and on began too early"
    assert Staged(in_stages().handled[:-1]).verdict == "11 of 12 messages"


def test_without_spark_it_names_what_to_install() -> None:
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture:
        show_read(console, ReadBySpark(missing="lanemq[spark] is not installed"))
    assert capture.get() == "without Spark: lanemq[spark] is not installed\n"
