"""The command ``lanemq``.

Each part of the project brings its own sub-commands through the entry-point group
``lanemq.commands``; nothing is imported that the given one does not need.
"""

import sys

from ._output import run_to_closed_output


def main() -> None:
    """Run the command line. It needs click, which ``pip install lanemq`` alone leaves out."""
    try:
        from ._group import lanemq
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("lanemq: the command line is not installed; pip install 'lanemq[server]'")
    run_to_closed_output(lambda: lanemq(prog_name="lanemq"))


__all__ = ["main"]
