"""The demo tells the truth with its exit status."""

import shutil

import pytest
from rich.console import Console

from lanemq.compat import PeersMissing
from lanemq.compat._demo import run_demo


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


@pytest.mark.slow
async def test_without_a_jdk_the_demo_shows_python_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("LANEMQ_REQUIRE_PEERS", raising=False)
    status, shown = await shown_by_demo()
    assert status == 0, shown
    assert shown.count("3 of 3") == 1
    assert "without Java: JDK 17" in shown


async def test_without_a_jdk_that_is_required_the_demo_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("LANEMQ_REQUIRE_PEERS", "1")
    with pytest.raises(PeersMissing, match="JDK 17"):
        await shown_by_demo()
