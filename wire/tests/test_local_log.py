"""Whatever is logged, a record is one line that nobody can forge, and has a bound."""

import io
import logging
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lanemq.local import _log, get_logger

FORGED = "x\n2026-11-27 10:00:00,000 INFO lanemq.proxy: all is well\x1b[2J\u202e\u2028\x9b\ud800"
LOGGER = get_logger("lanemq.tests.shown")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """A handler as an application or a server has it: nothing in it knows of lanemq."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    yield written
    LOGGER.removeHandler(handler)
    LOGGER.propagate = True


class Named:
    def __str__(self) -> str:
        return FORGED

    def __repr__(self) -> str:
        return f"<{FORGED}>"


HOSTILE = [
    FORGED,
    FORGED.encode("utf-8", "surrogatepass"),
    Named(),
    ValueError(FORGED),
    [FORGED],
    {"name": FORGED},
    [Named()],
    ExceptionGroup(FORGED, [ValueError(FORGED)]),
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("form", ["%s", "%r", "%20s", "%-5.300s"])
def test_an_argument_makes_no_line_and_no_escape(
    log: io.StringIO, form: str, value: object
) -> None:
    LOGGER.warning(f"group {form} of %d brokers", value, 3)
    assert log.getvalue().count("\n") == 1
    assert log.getvalue().rstrip("\n").isprintable()


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_named_arguments_and_ready_texts_are_escaped_too(log: io.StringIO, value: object) -> None:
    LOGGER.warning("%(name)s", {"name": value})
    LOGGER.warning(f"{value}")
    assert log.getvalue().count("\n") == 2
    assert log.getvalue().replace("\n", "").isprintable()


def test_a_traceback_has_no_line_that_looks_like_a_record(log: io.StringIO) -> None:
    try:
        raise ExceptionGroup(FORGED, [ValueError(FORGED)]) from KeyError(FORGED)
    except ExceptionGroup:
        LOGGER.exception("failed")
    first, *rest = log.getvalue().rstrip("\n").split("\n")
    assert first == "ERROR failed"
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert any("ValueError" in line for line in rest)


@pytest.mark.parametrize(
    "value", ["x" * 500_000, b"x" * 500_000, ["x" * 500_000], ValueError("\n" * 500_000)]
)
def test_what_is_long_is_cut(log: io.StringIO, value: object) -> None:
    LOGGER.warning("%s and %r", value, value)
    LOGGER.warning(str(value))
    if isinstance(value, Exception):
        LOGGER.warning("failed", exc_info=value)
    assert len(log.getvalue()) < 50_000


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=())), st.integers())
def test_any_text_and_number(log: io.StringIO, text: str, number: int) -> None:
    log.seek(0)
    log.truncate()
    LOGGER.warning("%s %d %r", text, number, text)
    assert log.getvalue().count("\n") == 1


def test_clean_records_are_as_they_were(log: io.StringIO) -> None:
    LOGGER.warning("100%% of %s, %.1f s, %r, %5d|%-6s|", "orders", 1.25, "g", 7, "ab")
    LOGGER.warning("no arguments: 100%")
    assert log.getvalue() == (
        "WARNING 100% of orders, 1.2 s, 'g',     7|ab    |\nWARNING no arguments: 100%\n"
    )


class _Peer(NamedTuple):
    host: str
    port: int


def test_lines_that_peers_cause_are_so_many_a_minute_and_then_counted(
    monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(_log, "monotonic", lambda: now_s)
    limited = get_logger(f"{LOGGER.name}.limited", by_peers=True)

    def refuse(peer: _Peer, name: str) -> None:
        limited.warning("request %d of %s: %s", 1, peer, name)

    def close(peer: _Peer) -> None:
        limited.warning("%s closed", peer)

    for number in range(1000):
        refuse(_Peer("10.0.0.1", number), f"T{number}")
    assert log.getvalue().count("\n") == _log.PEER_LINES
    refuse(_Peer("10.0.0.2", 1), "other")
    close(_Peer("10.0.0.1", 1))
    lines = log.getvalue().splitlines()
    assert len(lines) == _log.PEER_LINES + 2
    assert f"({1000 - _log.PEER_LINES} lines of this logger were left out before)" in lines[-2]
    assert "left out" not in lines[-1]
    for number in range(1000):
        refuse(_Peer(f"10.1.{number}", 1), "other")
    assert log.getvalue().count("\n") <= _log.KIND_LINES + 1
    now_s += _log.LIMIT_PERIOD_S
    refuse(_Peer("10.0.0.1", 1), "again")
    assert "again" in log.getvalue().splitlines()[-1]
