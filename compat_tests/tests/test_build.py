"""Things fetched or built are built once, whole, and from the sources that are there."""

from pathlib import Path

import pytest

from lanemq.compat import BuildFailed
from lanemq.compat.peers._build import built, peers_dir, recipe_hash, run_tool
from lanemq.compat.peers._drivers import JAVA_CLIENTS, client_sources, driver_sources


@pytest.fixture(autouse=True)
def _own_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEMQ_PEERS_DIR", str(tmp_path / "peers"))


def test_a_recipe_is_made_once() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "result").write_text("done")

    first = built("kind", "name", ["recipe"], make)
    assert built("kind", "name", ["recipe"], make) == first
    assert len(made) == 1
    assert (first / "result").read_text() == "done"
    assert first.parent == peers_dir() / "kind"


def test_a_new_recipe_replaces_the_old_folder() -> None:
    old = built("kind", "name", ["one"], lambda folder: None)
    other = built("kind", "name-2", ["one"], lambda folder: None)
    new = built("kind", "name", ["two"], lambda folder: None)
    assert new != old
    assert not old.exists()
    assert other.exists()


def test_a_failed_build_leaves_nothing_and_is_tried_again() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        built("kind", "name", ["recipe"], fail)
    assert [path.name for path in (peers_dir() / "kind").iterdir()] == ["name.lock"]
    assert built("kind", "name", ["recipe"], lambda folder: None).is_dir()


def test_recipes_differ_where_their_parts_do() -> None:
    assert recipe_hash(["ab", "c"]) != recipe_hash(["a", "bc"])
    assert recipe_hash(["ab"]) == recipe_hash([b"ab"])


def test_a_failing_tool_shows_the_end_of_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"exit status 7(.|\n)*the cause"):
        run_tool(["sh", "-c", "echo the cause; exit 7"], folder=tmp_path)


@pytest.mark.parametrize("version", list(JAVA_CLIENTS))
def test_each_java_release_gets_its_packages_and_its_features(version: str) -> None:
    client = JAVA_CLIENTS[version]
    sources = client_sources(version)
    assert f'VERSION = "{version}"' in sources["Driver.java"]
    for written, _ in client.packages:
        assert not any(written in text for text in sources.values())
    optional = {name for name in sources if name.startswith("Feature")}
    assert optional == {f"Feature{feature}.java" for feature in client.features}


@pytest.mark.parametrize("language", ["java", "go", "node"])
def test_driver_sources_come_with_the_package(language: str) -> None:
    assert driver_sources(language)
