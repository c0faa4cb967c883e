"""Paths of directories and files, and URIs with a query, which holds options of a file system."""

from typing import Final

SCHEME: Final = "://"


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
