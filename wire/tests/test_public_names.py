"""Each package exports what it says, and every name has one home."""

import importlib
import types
from collections import Counter

import pytest

PACKAGES = (
    "",
    ".bodies",
    ".fastjson",
    ".frame",
    ".headers",
    ".logical",
    ".message",
    ".requests",
    ".sql92",
)


def names(package: str) -> list[str]:
    module = importlib.import_module(f"lanemq.wire{package}")
    return list(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_every_public_name_and_nothing_else(package: str) -> None:
    module = importlib.import_module(f"lanemq.wire{package}")
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(names(package))


def test_every_name_has_one_home() -> None:
    homes = Counter(name for package in PACKAGES for name in names(package))
    assert [name for name, count in homes.items() if count > 1] == []
