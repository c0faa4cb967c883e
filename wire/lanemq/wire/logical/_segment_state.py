"""The states of a segment, from its opening to its expiry.

Source: RocketMQ 5.0.0-PREVIEW, MessageQueueRouteState.
"""

from enum import StrEnum
from typing import final

from .._errors import RemoteProtocolError


@final
class SegmentState(StrEnum):
    """The states of a segment. The value is the name on the wire."""

    ordinal: int
    """The number of the state, which chains are sorted by."""
    is_writable: bool
    is_readable: bool

    def __new__(cls, name: str, ordinal: int, writable: bool, readable: bool) -> "SegmentState":
        state = str.__new__(cls, name)
        state._value_ = name
        state.ordinal, state.is_writable, state.is_readable = ordinal, writable, readable
        return state

    EXPIRED = "Expired", 0, False, False
    """Sealed, and without messages: it never had any, or retention took them."""
    READ_ONLY = "ReadOnly", 1, False, True
    """Sealed: its end is known and never changes."""
    NORMAL = "Normal", 2, True, True
    """The open end of a logical queue."""
    WRITE_ONLY = "WriteOnly", 3, True, False
    """A queue is being migrated to it; its ``delta`` may not be known yet."""

    @classmethod
    def from_json(cls, value: object) -> "SegmentState":
        """Return a state by its name or its number. Raises ``RemoteProtocolError`` for any other
        value."""
        if isinstance(value, bool):
            pass
        elif isinstance(value, int) and 0 <= value < len(_BY_ORDINAL):
            return _BY_ORDINAL[value]
        elif isinstance(value, str) and value in _BY_NAME:
            return _BY_NAME[value]
        raise RemoteProtocolError(f"expected the state of a segment, not {str(value)[:40]!r}")


_BY_ORDINAL = tuple(sorted(SegmentState, key=lambda state: state.ordinal))
_BY_NAME = {state.value: state for state in SegmentState}
