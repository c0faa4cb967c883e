"""Paths of directories and files, URIs with a query, which holds options of a file system, and
addresses of tables."""

import os
from pathlib import Path
from typing import Final

from ._errors import SourceError

SCHEME: Final = "://"
CLUSTER: Final = "rocketmq://"
"""Before the address of the name servers of a cluster."""
DELTA: Final = "delta:"
"""Before the path or URI of a table of Delta Lake."""
ICEBERG: Final = "iceberg://"
"""Before the name of a catalog, and of a table of Iceberg there."""


def below(root: str, name: str) -> str:
    """Return the URI of ``name`` in ``root``, with the same file system and options."""
    place, mark, options = root.partition("?") if SCHEME in root else (root, "", "")
    return f"{place.rstrip('/')}/{name}{mark}{options}"


def shown(uri: str) -> str:
    """Return a name for people: without the account and the options, which may be secrets."""
    scheme, mark, rest = uri.partition(SCHEME)
    if not mark:
        return uri
    rest = rest.partition("?")[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}{SCHEME}{host.rpartition('@')[2]}{slash}{path}"


def absolute(place: str) -> str:
    """Return a path as every process finds it; a URI is returned as it is."""
    form = DELTA if place.startswith(DELTA) else ""
    path = place.removeprefix(form)
    return place if path.startswith("file:") or SCHEME in path else form + os.path.abspath(path)


def is_table(place: str) -> bool:
    """Return whether a place is named as a table, and so is nothing else."""
    return place.startswith((DELTA, ICEBERG))


def new_store(place: str) -> Path:
    """Return the path of a store that is to be made. Raises ``SourceError`` for a place that is
    there already, and for a URI: one process writes a store, on its own machine."""
    if SCHEME in place:
        raise SourceError(f"{shown(place)}: a store is written to a local path only")
    path = Path(os.path.abspath(place))
    if path.exists():
        raise SourceError(f"{place} already exists: name a directory that does not")
    return path
