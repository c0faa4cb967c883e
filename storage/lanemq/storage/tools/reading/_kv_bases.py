"""The check that the bases of partitions can be used, each read whole."""

from pathlib import Path
from typing import final

from lanemq.wire import RemoteProtocolError

from ..._errors import StoreCorrupted
from ...disk._real_files import RealFiles
from ...kv._bases import BASES_DIRECTORY, SUFFIX, base_pages, read_base
from ...kv._copy import StateCopy
from ...kv.engines._opening import DIRECTORY
from ...kv.engines._rows import Meta


@final
class _Nowhere:
    """A table that keeps nothing of what is written to it."""

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None:
        pass


def damaged_bases(root: Path) -> dict[str, str]:
    """Read the bases below a store's directory; returns the names of the files that cannot be
    used, and why. Raises ``OSError``."""
    directory, files = root / DIRECTORY / BASES_DIRECTORY, RealFiles()
    found: dict[str, str] = {}
    for entry in files.entries(directory):
        if not entry.name.endswith(SUFFIX):
            continue
        path = directory / entry.name
        try:
            copy = StateCopy(_Nowhere())
            for rows in base_pages(files, path, entry.size_bytes):
                copy.put(rows)
            copy.finish(Meta(first=read_base(files, path, entry.size_bytes).position))
        except StoreCorrupted as error:
            found[entry.name] = str(error)
        except RemoteProtocolError as error:
            found[entry.name] = f"{path}: {error}"
    return found
