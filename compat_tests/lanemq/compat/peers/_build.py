"""Things fetched or built once: a folder per recipe, named after a hash of what went in.

A folder appears complete or not at all: it is made beside its place and renamed. Several
processes may ask at once; the first makes it, the others wait for the lock.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .._errors import BuildFailed

CHECKOUT = Path(__file__).resolve().parents[4]


def peers_dir() -> Path:
    """Return where fetched software is kept.

    ``LANEMQ_PEERS_DIR`` if set; else ``.peers`` of the checkout this file is in; else, for an
    installed package, the user's cache.
    """
    if chosen := os.environ.get("LANEMQ_PEERS_DIR"):
        return Path(chosen).absolute()
    if (CHECKOUT / "compat_tests" / "lanemq" / "compat").is_dir():
        return CHECKOUT / ".peers"
    return Path.home() / ".cache" / "lanemq" / "peers"


def recipe_hash(parts: Iterable[str | bytes]) -> str:
    """Return a short name for what a build is made from; any change gives another one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:12]


def built(
    kind: str, name: str, recipe: Iterable[str | bytes], make: Callable[[Path], None]
) -> Path:
    """Return the folder of ``name``, calling ``make(empty folder)`` if this recipe is new.

    Folders of older recipes of the same name are removed. Raises ``BuildFailed``.
    """
    home = peers_dir() / kind
    home.mkdir(parents=True, exist_ok=True)
    place = home / f"{name}-{recipe_hash(recipe)}"
    if place.is_dir():
        return place
    with _lock(home / f"{name}.lock"):
        if place.is_dir():
            return place
        workshop = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
        try:
            make(workshop)
            workshop.chmod(0o755)
            workshop.rename(place)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
        for older in home.glob(f"{name}-{'[0-9a-f]' * 12}"):
            if older != place:
                shutil.rmtree(older, ignore_errors=True)
    return place


def run_tool(arguments: Sequence[str | Path], *, folder: Path) -> None:
    """Run one build tool to its end; raise ``BuildFailed`` with the end of its output."""
    command = [str(argument) for argument in arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BuildFailed(command, done.returncode, done.stdout)


@contextmanager
def locked(what: str) -> Iterator[None]:
    """Keep other processes, and other threads, out of what may be done by one at a time."""
    peers_dir().mkdir(parents=True, exist_ok=True)
    with _lock(peers_dir() / f"{what}.lock"):
        yield


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
