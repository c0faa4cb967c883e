"""Requirements of tests of the Spark part."""

import importlib.util
import shutil
from typing import Final

from .peers import missing

PACKAGES: Final = ("numpy", "pyarrow", "pyspark")


def require_packages(*more: str) -> None:
    """Skip, or fail, the tests of a module without ``lanemq[spark]``; ``more`` is of it, too."""
    if absent := [name for name in (*PACKAGES, *more) if importlib.util.find_spec(name) is None]:
        missing(
            f"lanemq[spark] needed: no {', '.join(absent)}; `make test` installs it", module=True
        )


def require_java() -> None:
    """Skip, or fail, a test without a JDK, which Spark runs on."""
    if shutil.which("java") is None:
        missing("a JDK of version 17 needed: no java on PATH")
