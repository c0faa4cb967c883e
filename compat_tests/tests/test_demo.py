"""The demo tells the truth with its exit status."""

import shutil
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from lanemq.compat import PeersMissing
from lanemq.compat._demo import run_demo
from lanemq.compat._demo_migration import Moved


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
    assert "a queue that moves" in shown
    assert "broker-a -> broker-b -> broker-a" in shown
    assert "Java 4.9.7" in shown
    assert "unnoticed" in shown


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
