"""`make docs` builds, has every public name, and takes nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lanemq.sdk
import lanemq.sdk.admin
import lanemq.sdk.aio
import lanemq.sdk.blocking
import lanemq.storage
import lanemq.testing
import lanemq.wire

ROOT = Path(__file__).parents[2]
COMPLETE = {
    "sdk.html": lanemq.sdk,
    "admin.html": lanemq.sdk.admin,
    "wire.html": lanemq.wire,
    "storage.html": lanemq.storage,
    "testing.html": lanemq.testing,
}
FACES = (lanemq.sdk.aio, lanemq.sdk.blocking)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` does, which also installs what it takes."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def missing(page: str, module: ModuleType, names: set[str]) -> list[str]:
    return sorted(name for name in names if f'id="{module.__name__}.{name}"' not in page)


@pytest.mark.slow
def test_the_reference_has_every_public_name(site: Path) -> None:
    for name, module in COMPLETE.items():
        page = (site / "reference" / name).read_text()
        assert missing(page, module, set(module.__all__)) == []
    page = (site / "reference" / "faces.html").read_text()
    for face in FACES:
        own = {n for n in face.__all__ if getattr(face, n) is not getattr(lanemq.sdk, n, None)}
        assert missing(page, face, own) == []


@pytest.mark.slow
def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"([^\"]+)\"", text)
        assert [target for target in loaded if "//" in target] == [], page


def test_every_decision_is_listed() -> None:
    listed = re.findall(r"\(adr/([^)]+)\)", (ROOT / "docs" / "decisions.md").read_text())
    assert listed == sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
