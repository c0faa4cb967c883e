"""The properties of a message that was read, without RocketMQ's own."""

from collections.abc import Mapping
from typing import Final

from lanemq.wire.message import Property

SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(Property).items() if not name.startswith("_")
)


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the sender's application set.

    Those of RocketMQ described the message that was read: its queue, its key, its delivery. A
    message that is sent again gets new ones.
    """
    return {
        name: value
        for name, value in properties.items()
        if name not in SYSTEM_PROPERTIES and name and value
    }
