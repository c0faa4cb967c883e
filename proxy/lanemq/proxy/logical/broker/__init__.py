"""Logical queues at a broker: mapping, sealing, migration, sends and pulls."""

# The broker and these parts of it need each other: from the broker on they load in an order that
# works, whichever of them somebody asks for first.
from ... import broker as _broker  # noqa: F401
