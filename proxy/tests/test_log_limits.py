"""Lines that peers cause have a limit, whichever module of the servers logs them."""

import importlib
import logging
import pkgutil
from collections import Counter
from typing import Final

import pytest

import lanemq.proxy
from lanemq.testkit.logs import one_minute_logged

WITHOUT_LIMIT: Final = {
    "lanemq.proxy.broker.registration",  # of this broker's own name servers
    "lanemq.proxy.cli",
    "lanemq.proxy.config",
    "lanemq.proxy.fleet",
    "lanemq.proxy.listen",
    "lanemq.proxy.processes",
}
"""Loggers of what a server does by itself, and for its operator."""


def loggers() -> dict[str, logging.Logger]:
    found = {}
    for info in pkgutil.walk_packages(lanemq.proxy.__path__, "lanemq.proxy."):
        if not info.name.endswith("__main__"):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, logging.Logger):
                    found[value.name] = value
    return found


LOGGERS: Final = loggers()


class _Counts(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines = Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines[record.name] += 1


def lines_of(name: str, level: int) -> int:
    logger, counts = LOGGERS[name], _Counts()
    before = logger.level
    logger.addHandler(counts)
    logger.setLevel(logging.DEBUG)
    try:
        with one_minute_logged():
            for number in range(1000):
                logger.log(level, "line %d", number)
    finally:
        logger.setLevel(before)
        logger.removeHandler(counts)
    return counts.lines[name]


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
@pytest.mark.parametrize("name", sorted(LOGGERS.keys() - WITHOUT_LIMIT))
def test_a_logger_has_a_limit(name: str, level: int) -> None:
    assert lines_of(name, level) == 20


def test_loggers_without_a_limit_are_few() -> None:
    assert LOGGERS.keys() >= WITHOUT_LIMIT
    assert {name for name in WITHOUT_LIMIT if lines_of(name, logging.INFO) == 1000} == WITHOUT_LIMIT
