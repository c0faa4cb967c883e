"""``python -m lanemq.proxy.cli``: the command ``lanemq``, by the interpreter that is running."""

from . import main

main()
