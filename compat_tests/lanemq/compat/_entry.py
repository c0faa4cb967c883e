"""The command ``lanemq-compat``, and what it says where its packages are not installed."""

import sys


def main() -> None:
    """Run the command line. It needs packages that ``pip install lanemq`` alone leaves out."""
    try:
        from .cli import compat
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "lanemq"):
            raise
        sys.exit(f"lanemq-compat: {package} is not installed; pip install 'lanemq[compat]'")
    compat(prog_name="lanemq-compat")
