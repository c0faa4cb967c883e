"""``make lint`` finds circles between modules, and lets the list of known ones only get shorter."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
LINT = Path(sys.executable).with_name("lint-imports")
CONTRACT = """
[tool.importlinter]
root_packages = ["house.rooms", "house.garden", "house.shed"]
include_external_packages = true
contract_types = [
    "no_new_circles: tools.import_contracts.NoNewCircles",
    "not_imported: tools.import_contracts.NotImported",
    "no_room_circles: tools.import_contracts.NoRoomCircles",
    "no_foreign_privates: tools.import_contracts.NoForeignPrivates",
]

[[tool.importlinter.contracts]]
name = "circles"
type = "no_new_circles"
known = "known.txt"

[[tool.importlinter.contracts]]
name = "kit"
type = "not_imported"
package = "house.kit"

[[tool.importlinter.contracts]]
name = "privates"
type = "no_foreign_privates"
allowed = ["house.shed"]

[[tool.importlinter.contracts]]
name = "rooms"
type = "no_room_circles"
package = "house"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package ``house.rooms`` of four modules, two of which import each other."""
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "pyproject.toml").write_text(CONTRACT)
    rooms = tmp_path / "house" / "rooms"
    rooms.mkdir(parents=True)
    (rooms / "__init__.py").touch()
    (rooms / "a.py").write_text("from . import b\n")
    (rooms / "b.py").write_text("def late():\n    from . import a\n    return a\n")
    (rooms / "c.py").write_text("from . import a, b\n")
    (rooms / "d.py").touch()
    (rooms / "_safe.py").touch()
    for part in ("garden", "shed"):
        (tmp_path / "house" / part).mkdir()
        (tmp_path / "house" / part / "__init__.py").touch()
    (tmp_path / "known.txt").write_text("# known\n\nhouse.rooms.a\nhouse.rooms.b\n")
    return tmp_path


def lint(project: Path) -> str:
    command = [str(LINT), "--no-cache"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return "" if done.returncode == 0 else " ".join(done.stdout.split())


def test_known_circles_pass(project: Path) -> None:
    assert lint(project) == ""


def test_a_new_circle_is_shown_with_its_imports(project: Path) -> None:
    (project / "house" / "rooms" / "d.py").write_text("from . import c\n")
    (project / "house" / "rooms" / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import d\n"
    )
    said = lint(project)
    assert "2 modules import each other in a circle" in said
    assert "house.rooms.c -> house.rooms.d (line 3)" in said
    assert "house.rooms.d -> house.rooms.c (line 1)" in said
    assert "house.rooms.a -> house.rooms.b" not in said


def test_a_known_circle_does_not_grow(project: Path) -> None:
    (project / "house" / "rooms" / "b.py").write_text("from . import c\n")
    assert "3 modules import each other in a circle" in lint(project)


def test_a_circle_that_is_gone_leaves_the_list(project: Path) -> None:
    (project / "house" / "rooms" / "b.py").write_text("")
    said = lint(project)
    assert "house.rooms.a is in no circle any more: take it out of known.txt" in said


def test_who_imports_the_kit_is_named(project: Path) -> None:
    (project / "house" / "rooms" / "d.py").write_text("from house.kit.fakes import Fake\n")
    assert "house.rooms.d -> house.kit" in lint(project)


def test_private_modules_of_another_part_are_not_imported(project: Path) -> None:
    (project / "house" / "rooms" / "c.py").write_text("from . import _safe, a, b\n")
    (project / "house" / "shed" / "tool.py").write_text("from house.rooms import _safe\n")
    assert lint(project) == ""
    (project / "house" / "garden" / "gate.py").write_text("from house.rooms._safe import key\n")
    assert "house.garden.gate -> house.rooms._safe" in lint(project)


def test_folders_that_import_each_other_are_named(project: Path) -> None:
    (project / "house" / "rooms" / "d.py").write_text("from house.garden import gate\n")
    (project / "house" / "garden" / "gate.py").write_text("")
    assert lint(project) == ""
    (project / "house" / "garden" / "path.py").write_text("from house.rooms import a\n")
    assert "in a circle: house.garden, house.rooms" in lint(project)
