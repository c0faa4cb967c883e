"""The refusal of a start where a table in RocksDB cannot be read whole."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..._errors import ConfigInvalid, StartRefused, StoreCorrupted
from ...disk._files import Files
from .._contents import parse_contents
from .._document import Document
from ._rows import Kind


@contextmanager
def naming_ways_on(kind: Kind, directory: Path, files: Files) -> Iterator[None]:
    """Turn a database that cannot be read into a refusal to start; ``directory`` is ``config``.

    Rows that were left out would be gone from the next export, too.
    """
    try:
        yield
    except StoreCorrupted as error:
        path = directory / kind.name
        raise StartRefused(
            f"{error}. A start would be without some of the {kind.name}. Either put {path} back "
            "from a copy of the store; or move that directory away, and the next start with "
            f"storeType=defaultRocksDB takes over {_json(kind, directory, files)}; or start with "
            "files and allowStaleJsonMetadata=true, which uses the same file"
        ) from error


def _json(kind: Kind, directory: Path, files: Files) -> str:
    document = Document(files, directory / kind.file)
    modified_s = document.modified_s()
    if not modified_s:
        return f"{document.path}, which does not exist: there would be none at all"
    try:
        contents = parse_contents(document.load(after_crash=False), kind.member, document.path)
    except ConfigInvalid as error:
        return f"{document.path}, but {error}"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(modified_s))
    return f"{document.path}, which has {len(contents.entries)} of them as of {when}"
