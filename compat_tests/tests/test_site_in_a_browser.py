"""The site in a headless Chromium: light, dark and narrow, read as files; and its pictures."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lanemq.testkit.peers import missing
from tools import draw_pictures

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
PAGES = (
    *("index", "logical-queues", "sdk", "store", "server", "admin", "kv", "spark", "tour"),
    *("glossary", "testing", "reference/sdk"),
)
PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const query = document.querySelector("[data-md-component=search-query]")
  query.focus()
  query.value = "watermark"
  query.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}))
  const all = selector => [...document.querySelectorAll(selector)]
  const scrolls = one => {
    for (let at = one; at !== document.body; at = at.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return true
    return false
  }
  const look = left => {
    const told = {
      width: innerWidth,
      page: document.documentElement.scrollWidth,
      wide: all(".md-content table, .md-content pre > code").filter(
        one => one.getBoundingClientRect().right > innerWidth && !scrolls(one)).length,
      code: all(".md-content .highlight pre").length,
      copy: all(".md-content .md-clipboard, .md-content [data-md-type=copy]").length,
      images: all(".md-content img").map(one => one.naturalWidth),
      background: getComputedStyle(document.body).backgroundColor,
      found: document.querySelectorAll(".md-search-result__item").length,
    }
    // The page's own scripts take their time.
    const ready = told.found > 0 && told.copy >= told.code && told.images.every(one => one > 0)
    if (ready || left === 0) document.title = "PROBE" + JSON.stringify(told)
    else setTimeout(look, 200, left - 1)
  }
  setTimeout(look, 1500, 100)
}, 700))
</script>
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, as ``make docs`` builds them, each with a script that says what it looks like."""
    if CHROMIUM is None:
        missing("there is no Chromium on this machine (Debian: apt-get install chromium)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in folder.rglob("*.html"):
        page.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    return folder


def seen(site: Path, page: str, *, width: int, dark: bool) -> dict[str, Any]:
    """The probe's report of a page in a window of a given width in pixels."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        # A browser whose profile another one has open may leave the page to that one.
        f"--user-data-dir={site.with_name('profile')}",
        *("--headless", "--no-sandbox", "--disable-gpu"),
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--dump-dom",
        (site / f"{page}.html").as_uri(),
    ]
    # The browser's time runs ahead of what the machine gets done: there is more where it is needed.
    for budget_ms in (12_000, 60_000):
        limited = [*command[:1], f"--virtual-time-budget={budget_ms}", *command[1:]]
        done = subprocess.run(limited, capture_output=True, text=True, timeout=240, check=True)
        found = re.search(r"<title>PROBE(.*?)</title>", done.stdout)
        if found is not None:
            break
    assert found is not None, done.stdout[-2000:]
    told: dict[str, Any] = json.loads(found[1].replace("&quot;", '"'))
    return told


def brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_its_window_and_its_pictures_are_there(site: Path, page: str) -> None:
    for width in (1280, 500):
        told = seen(site, page, width=width, dark=False)
        assert told["page"] <= told["width"], f"{page} is wider than a window of {width} pixels"
        assert told["wide"] == 0, "a table or a block of code is cut off, and does not scroll"
        assert all(told["images"])
        assert told["copy"] >= told["code"]
        assert brightness(told["background"]) > 200


@pytest.mark.slow
def test_dark_where_the_reader_wants_it(site: Path) -> None:
    assert brightness(seen(site, "index", width=1280, dark=True)["background"]) < 80


@pytest.mark.slow
def test_the_search_finds_on_files(site: Path) -> None:
    assert seen(site, "index", width=1280, dark=False)["found"] > 0


def test_pictures_are_drawn_from_the_sources_that_are_there() -> None:
    assert len(list(draw_pictures.PICTURES.glob("*.pikchr"))) >= 5
    assert draw_pictures.stale() == [], "run tools/draw_pictures.py"


def test_a_picture_is_what_its_source_gives() -> None:
    if shutil.which("fossil") is None:
        missing("there is no fossil to draw with (Debian: apt-get install fossil)")
    for source in draw_pictures.PICTURES.glob("*.pikchr"):
        drawn = draw_pictures.draw(source.read_text(encoding="utf-8"))
        assert drawn == source.with_suffix(".svg").read_text(encoding="utf-8")


def test_a_picture_has_a_name_and_the_pages_colours() -> None:
    for drawn in draw_pictures.PICTURES.glob("*.pikchr"):
        text = drawn.with_suffix(".svg").read_text(encoding="utf-8")
        assert "<title>" in text
        assert "prefers-color-scheme:dark" in text
        assert set(re.findall(r"rgb\([^)]*\)", text)) == set()


def test_every_picture_is_shown_somewhere() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for source in draw_pictures.PICTURES.glob("*.pikchr"):
        assert f"](pictures/{source.stem}.svg)" in pages
