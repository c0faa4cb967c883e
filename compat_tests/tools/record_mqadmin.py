"""Records what the commands of mqadmin print: ``python compat_tests/tools/record_mqadmin.py``.

Without arguments it does so for all releases, at Apache's servers of the release and at lanemq's.
Read the changes before they are kept: they are what tests expect from then on.
"""

import sys
import tempfile
from pathlib import Path

import trio

from lanemq.compat.peers._drivers import MQADMIN_VERSIONS
from lanemq.compat.tools._outputs import record, run_steps


async def main(versions: list[str]) -> None:
    """Record the outputs of the given releases."""
    for version in versions or MQADMIN_VERSIONS:
        for maker, server in (("apache", f"apache-{version}"), ("lanemq", "lanemq")):
            with tempfile.TemporaryDirectory(prefix="lanemq-mqadmin-") as folder:
                record(version, maker, await run_steps(version, server, Path(folder)))
                print(f"mqadmin {version} at {server}")


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
