"""No pattern of the code gives back what it took so often that a text takes quadratic time."""

import importlib
import itertools
import pkgutil
import re
import time
from collections.abc import Iterator
from types import BuiltinMethodType
from typing import Any, Final

import pytest

import lanemq.proxy
import lanemq.sdk
import lanemq.storage
import lanemq.wire
from lanemq.testkit.reading_time import slowness

LENGTH: Final = 4000
MOST_S: Final = 0.010
"""Seconds of processor time; linear patterns take less than a tenth of them."""
SAMPLES: Final = "a1 "


def patterns() -> dict[str, re.Pattern[Any]]:
    """Return the compiled patterns of all modules, by the name of the first that has it."""
    found: dict[re.Pattern[Any], str] = {}
    for part in (lanemq.wire, lanemq.storage, lanemq.sdk, lanemq.proxy):
        for info in pkgutil.walk_packages(part.__path__, f"{part.__name__}."):
            if info.name.endswith("__main__"):
                continue
            for name, value in vars(importlib.import_module(info.name)).items():
                is_bound = isinstance(value, BuiltinMethodType)  # a `fullmatch`
                owner = value.__self__ if is_bound else value
                if isinstance(owner, re.Pattern):
                    found.setdefault(owner, f"{info.name}.{name}")
    return {name: pattern for pattern, name in found.items()}


PATTERNS: Final = patterns()


def texts(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Return texts of its own characters, repeated, with beginnings that may lead to them."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    characters = sorted({*source, *SAMPLES})
    kinds = [one for one in characters if not one.isalnum()] + [
        one for one in characters if one.isalnum()
    ][:12]
    beginnings = ["", *kinds, "0x", "/*", "--", "a.", "1."]
    units = [*kinds, *map("".join, itertools.product(kinds[:12], repeat=2))]
    for beginning in beginnings:
        for unit in units:
            yield beginning + unit * (LENGTH // len(unit)) + "\x00"


def test_the_walk_finds_patterns() -> None:
    assert any(name.endswith("sql92._values._DECIMAL") for name in PATTERNS)
    assert len(PATTERNS) > 30


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_linear_time(name: str) -> None:
    pattern = PATTERNS[name]
    allowed_s = MOST_S * slowness()
    for text in texts(pattern):
        subject = text if isinstance(pattern.pattern, str) else text.encode()
        for _ in range(4):  # a neighbour can slow one measurement down
            begun = time.thread_time()
            pattern.fullmatch(subject)
            took_s = time.thread_time() - begun
            if took_s <= allowed_s:
                break
        else:
            pytest.fail(f"{pattern.pattern!r}: {took_s * 1e3:.1f} ms for {text[:10]!r}...")
