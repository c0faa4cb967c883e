"""A home of Spark whose workers take PySpark as it is installed, compiled.

PySpark's own home has it in an archive, too, which comes first in the path of every worker, and
which each of them compiles again: more than a second of a processor for each kind of worker.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lanemq.local import make_directories

HOME: Final = "SPARK_HOME"


def unpack_home(home: Path) -> None:
    """Fill an empty directory with links to PySpark's own home, but for the archive of PySpark."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    for path in installed.iterdir():
        if path.name != "python":
            (home / path.name).symlink_to(path)
    libraries = home / "python" / "lib"
    make_directories(libraries)
    for path in (installed / "python" / "lib").glob("py4j*.zip"):
        (libraries / path.name).symlink_to(path)


@contextmanager
def unpacked_home() -> Iterator[None]:
    """Let a Spark that starts in the block have such a home, unless the user has named one.

    Whatever Spark is there without a home of its own, as one of a package manager, is left alone.
    """
    import pyspark

    if HOME in os.environ or not (Path(pyspark.__file__).parent / "jars").is_dir():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="lanemq-spark-", ignore_cleanup_errors=True) as name:
        unpack_home(Path(name))
        os.environ[HOME] = name
        try:
            yield
        finally:
            os.environ.pop(HOME, None)
