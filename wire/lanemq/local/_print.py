"""The printer of all commands: lines that no foreign text can forge."""

import sys
from typing import TextIO

from lanemq.wire import LINE_MAX, show_json, show_text


def print_line(text: str = "", *, err: bool = False, whole: bool = False) -> None:
    """Print one line on the standard output, or with ``err`` on the standard error.

    What is in it is shown as ``show_text`` does; a long line is cut unless all of it was asked
    for, ``whole``.
    """
    _write(show_text(text, None if whole else LINE_MAX), sys.stderr if err else sys.stdout)


def print_block(text: str) -> None:
    """Print JSON in lanemq's own layout, of lines that begin with tabs."""
    for line in text.split("\n"):
        _write("\t".join(map(show_json, line.split("\t"))), sys.stdout)


def print_indented(text: str) -> None:
    """Print all of a foreign text, which may have several lines, each of them indented."""
    for line in text.split("\n"):
        _write(f"    {show_text(line.removesuffix(chr(13)), None)}", sys.stdout)


def print_json(data: str | bytes) -> None:
    """Print a JSON text; its values stay exactly the same, whatever is in them."""
    text = data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else data
    _write(show_json(text), sys.stdout)


def _write(line: str, to: TextIO) -> None:
    to.write(f"{line}\n")
    to.flush()
