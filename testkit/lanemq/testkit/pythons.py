"""The interpreters of other versions of Python on this machine."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

REQUIRED: Final = ("3.12", "3.13")
"""The versions, beside the one that the project is developed with, that its tests insist on."""
HOMES: Final = (
    Path.home() / ".pyenv" / "versions",
    Path.home() / ".local" / "share" / "uv" / "python",
)


def interpreter(version: str) -> str | None:
    """Return the path of a Python of a version, as ``3.12``; None if there is none.

    It is looked for among those of pyenv and uv, and on PATH.
    """
    homes = [home for place in HOMES for home in sorted(place.glob(f"*{version}.*"))]
    found = [str(home / "bin" / f"python{version}") for home in homes]
    found += [path] if (path := shutil.which(f"python{version}")) else []
    return next((one for one in found if _is(one, version)), None)


def _is(path: str, version: str) -> bool:
    """Return whether an interpreter starts and is of a version: PATH may hold stand-ins."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == version
