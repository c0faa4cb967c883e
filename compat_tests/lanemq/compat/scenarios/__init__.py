"""All scenarios, by theme. Importing this package registers them."""

from ..cells._scenario import SCENARIOS
from . import (
    consuming,
    groups,
    mixing,
    ordering,
    pulling,
    queries,
    requests,
    retries,
    sending,
    shapes,
    tools,
    transactions,
)

__all__ = [
    "SCENARIOS",
    "consuming",
    "groups",
    "mixing",
    "ordering",
    "pulling",
    "queries",
    "requests",
    "retries",
    "sending",
    "shapes",
    "tools",
    "transactions",
]
