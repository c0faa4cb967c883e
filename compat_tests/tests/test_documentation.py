"""The pages are true of the project's files, and the layout is as they say."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("wire", "storage", "sdk", "proxy", "spark", "compat_tests", "bench")
PAGES = sorted(
    chain(
        ROOT.glob("*.md"),
        (ROOT / "docs").rglob("*.md"),
        *((ROOT / part).glob("*.md") for part in PARTS),
        (ROOT / "testkit").rglob("*.md"),
    )
)


def link_targets(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [target for target in targets if "://" not in target and not target.startswith("#")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    for target in link_targets(page):
        assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def named_modules(page: Path) -> set[str]:
    """The modules in a page, as it writes them: `_send.py`, or with folders before it."""
    text = page.read_text(encoding="utf-8")
    return set(re.findall(r"`((?:[a-z_0-9]+/)*_[a-z0-9][a-z_0-9]*\.py)`", text))


@pytest.fixture(scope="module")
def modules() -> list[str]:
    """Every module, with the folders that a page may name: `proxy/net/_server.py`."""
    return [
        f"/{part}/{path.relative_to(folder).as_posix()}"
        for part in (*PARTS, "testkit")
        for folder in (ROOT / part / "lanemq").iterdir()
        for path in folder.rglob("*.py")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path, modules: list[str]) -> None:
    def is_there(name: str) -> bool:
        return any(module.endswith(f"/{name}") for module in modules)

    assert [name for name in sorted(named_modules(page)) if not is_there(name)] == []


def test_the_tour_names_modules() -> None:
    assert len(named_modules(ROOT / "docs" / "tour.md")) > 40


def test_every_adr_has_its_own_number() -> None:
    numbers = [path.name[:3] for path in (ROOT / "docs" / "adr").glob("*.md")]
    assert sorted(numbers) == [f"{number:03d}" for number in range(1, len(numbers) + 1)]


def test_no_part_hides_the_others() -> None:
    """A ``lanemq/__init__.py`` in one folder would end the namespace for all of them."""
    assert [part for part in PARTS if (ROOT / part / "lanemq" / "__init__.py").exists()] == []


def test_every_part_says_that_it_is_typed() -> None:
    entries = [path for part in PARTS for path in (ROOT / part / "lanemq").iterdir()]
    packages = [path for path in entries if path.is_dir() and path.name != "__pycache__"]
    assert len(packages) == len(PARTS) + 2  # wire/ has lanemq.local, proxy/ lanemq.testing
    assert [path for path in packages if not (path / "py.typed").exists()] == []


def test_a_wheel_holds_every_part() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    folders = [f"{part}/lanemq" for part in PARTS]
    assert sorted(wheel["only-include"]) == sorted(folders)
    assert wheel["sources"] == dict.fromkeys(folders, "lanemq")
