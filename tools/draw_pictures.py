"""Draw the pictures of the documentation from their text sources.

    python tools/draw_pictures.py            # draw docs/pictures/*.svg
    python tools/draw_pictures.py --check    # say which are older than their source

A source is a text in Pikchr (https://pikchr.org) whose first line is the picture's title, and
``fossil pikchr`` draws it (Debian's package ``fossil``). Lines and text have the page's colours,
in light and in dark: a source names ``$paper``, ``$soft``, ``$open``, ``$muted`` and ``$accent``.
An SVG says the hash of its source, so that ``--check`` needs no fossil.
"""

import hashlib
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Final

PICTURES: Final = Path(__file__).parents[1] / "docs" / "pictures"
SCALE: Final = 0.7
"""Pixels of a page for one of Pikchr's."""
# Pikchr knows colours only: each name becomes one that no picture has otherwise.
NAMES: Final = ("paper", "soft", "open", "muted", "accent")
LIGHT: Final = {
    "ink": "#1f2328",
    "paper": "#ffffff",
    "soft": "#e6ebf1",
    "open": "#cfe8d5",
    "muted": "#57606a",
    "accent": "#1a7f37",
}
DARK: Final = {
    "ink": "#e2e4e9",
    "paper": "#1e2129",
    "soft": "#363c4a",
    "open": "#1f4a33",
    "muted": "#a0a7b4",
    "accent": "#56d37f",
}


def digest(source: str) -> str:
    """The digest an SVG names when it is up to date with its source."""
    drawn_by = Path(__file__).read_text(encoding="utf-8")
    return hashlib.sha256((drawn_by + source).encode()).hexdigest()[:16]


def draw(source: str) -> str:
    """Return the SVG of a source."""
    title = source.splitlines()[0].lstrip("# ")
    script = source
    for number, name in enumerate(NAMES, start=1):
        script = re.sub(rf"\${name}\b", f"0x0100{number:02x}", script)
    command = ["fossil", "pikchr", "-", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    svg = done.stdout
    if done.returncode != 0 or "<svg" not in svg:
        sys.exit(f"{title}: {done.stdout}{done.stderr}")
    svg = svg[svg.index("<svg") : svg.index("</svg>") + len("</svg>")]
    for number, name in enumerate(NAMES, start=1):
        svg = svg.replace(f"rgb(1,0,{number})", f"var(--{name})")
    svg = svg.replace("rgb(0,0,0)", "var(--ink)")
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert size is not None, svg[:200]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" '
        f'viewBox="0 0 {size[1]} {size[2]}" width="{float(size[1]) * SCALE:.0f}" '
        f'data-source="{digest(source)}">'
        f"<title>{escape(title)}</title><style>{style()}</style>"
    )
    return head + svg[svg.index(">") + 1 :] + "\n"


def style() -> str:
    """The colours of a picture that stands by itself; a page's own style sheet comes first."""

    def variables(colours: dict[str, str]) -> str:
        return "".join(f"--{name}:{colour};" for name, colour in colours.items())

    return (
        f":where(svg.picture){{{variables(LIGHT)}font-family:system-ui,sans-serif}}"
        f"@media (prefers-color-scheme:dark){{:where(svg.picture){{{variables(DARK)}}}}}"
    )


def stale() -> list[str]:
    """The names of sources whose SVG is missing or was drawn from something else."""
    names = []
    for source in sorted(PICTURES.glob("*.pikchr")):
        drawn = source.with_suffix(".svg")
        mark = f'data-source="{digest(source.read_text(encoding="utf-8"))}"'
        if not drawn.exists() or mark not in drawn.read_text(encoding="utf-8"):
            names.append(source.name)
    return names


def main(arguments: list[str]) -> None:
    if arguments == ["--check"]:
        if names := stale():
            sys.exit(f"not up to date: {', '.join(names)}; run tools/draw_pictures.py")
        return
    for source in sorted(PICTURES.glob("*.pikchr")):
        svg = draw(source.read_text(encoding="utf-8"))
        source.with_suffix(".svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
