"""``make lint`` finds tests of one part that import a private module of another."""

import pytest

from tools import check_tests

LOG = "lanemq.storage.log"
PRIVATE = f"{LOG}._records"


@pytest.mark.parametrize("part", ["proxy", "sdk", "compat_tests"])
@pytest.mark.parametrize(
    ("source", "name"),
    [
        (f"import {PRIVATE} as records", PRIVATE),
        (f"from {PRIVATE} import Record", f"{PRIVATE}.Record"),
        (f"from {LOG} import _records", PRIVATE),
        (f"from {LOG} import (  # private\n    _records,\n)", PRIVATE),
        (f"def f():\n    from {LOG} import _records", PRIVATE),
        (f"monkeypatch.setattr('{PRIVATE}.LIMIT', 1)", f"{PRIVATE}.LIMIT"),
    ],
)
def test_a_private_module_of_another_part_is_found(part: str, source: str, name: str) -> None:
    line = 2 + source.startswith("def")
    assert list(check_tests.foreign_privates(part, f"x = 1\n{source}\n")) == [(line, name)]


@pytest.mark.parametrize(
    "source",
    [
        f"from {PRIVATE} import Record",
        "from lanemq.storage import open_store",
        "from lanemq.sdk import __name__",
        "import lanemq.wire.frame",
        "from lanemq.testkit.logical.cluster import TOPIC",
        "from ._records import Record",
        "from _records import Record",
        "logger = 'lanemq.sdk'",
        "text = 'lanemq._sdk is no module, and this no import'",
    ],
)
def test_public_modules_a_parts_own_and_the_test_kits_pass(source: str) -> None:
    assert list(check_tests.foreign_privates("storage", source)) == []


def test_each_module_belongs_to_the_part_whose_folder_has_it() -> None:
    names = ("wire.frame", "storage", "sdk._tables", "proxy", "testing", "compat.cells._scenario")
    assert [check_tests.part_of(f"lanemq.{name}") for name in (*names, "bench", "nobody")] == [
        *("wire", "storage", "sdk", "proxy", "proxy", "compat_tests"),
        *("bench", None),
    ]


@pytest.mark.slow
def test_no_test_imports_private_modules_of_another_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        check_tests.main()
    assert capsys.readouterr().out == ""
    assert stopped.value.code == 0
