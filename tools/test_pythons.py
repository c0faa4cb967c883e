"""Run the core of the fast tests with each newer Python that this machine has.

``make test-pythons``: for 3.12, 3.13 and 3.14 an environment below ``build/pythons`` is made and
kept, the package is installed there as users do, and the tests of wire, storage, SDK and servers
run. An interpreter is looked for on PATH, and among those of pyenv and uv. One that is not there
is named; with LANEMQ_REQUIRE_PEERS=1 a missing 3.12 or 3.13 is a failure.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from lanemq.testkit.pythons import REQUIRED, interpreter

ROOT: Final = Path(__file__).parents[1]
VERSIONS: Final = ("3.12", "3.13", "3.14")
PARTS: Final = ("wire", "storage", "sdk", "proxy")


def test(python: str, version: str) -> bool:
    """Run the tests with one Python; False if one failed."""
    home = ROOT / "build" / "pythons" / version
    own = home / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(home)], check=True)
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *constraints, "--editable", f"{ROOT}[dev]"], check=True)
    tests = [f"{part}/tests" for part in PARTS]
    options = ["--quiet", "--numprocesses", "auto", "--dist", "worksteal"]
    options += ["-p", "no:cacheprovider", "-m", "not peers and not slow"]
    environment = {**os.environ, "LANEMQ_TESTS": "quick", "PYTHONPYCACHEPREFIX": str(home / "code")}
    done = subprocess.run(
        [str(own), "-m", "pytest", *options, *tests], cwd=ROOT, env=environment, check=False
    )
    return done.returncode == 0


def main() -> int:
    results = {}
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            results[version] = "not on this machine (install it by pyenv, uv or your system)"
            continue
        print(f"Python {version}: {python}", flush=True)
        results[version] = "passed" if test(python, version) else "FAILED"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    required = REQUIRED if os.environ.get("LANEMQ_REQUIRE_PEERS") == "1" else ()
    return any(
        result == "FAILED" or (version in required and result != "passed")
        for version, result in results.items()
    )


if __name__ == "__main__":
    sys.exit(main())
