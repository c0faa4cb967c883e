"""The remarks of refusals about keys."""

from typing import Final

LOST: Final = (
    "the keys of namespace {} are lost: bring back the directory kv of the store from a copy, or "
    "import a snapshot that replaces them"
)
IMPORTING: Final = (
    "an import into namespace {} has not ended: try again when it has; if it was broken off, begin "
    "it again, replacing what is there"
)
DELETED: Final = "the namespace {!r} of keys was deleted"
NO_LEASE: Final = (
    "there is no such lease, or it is another account's: it has ended, or was never granted in "
    "this partition; grant another one"
)
