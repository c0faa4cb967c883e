"""Recall handles, by which producers take back messages with a timer.

Source: RocketMQ 5.3.3, RecallMessageHandle.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final, Self, final

from .._errors import RemoteProtocolError

INVALID: Final = "recall handle is invalid"
_VERSION: Final = "v1"
_FIELDS: Final = 5


@final
@dataclass(frozen=True, slots=True)
class RecallHandle:
    """The message, the broker that has it, and the time (Unix milliseconds) it is kept under."""

    topic: str
    broker_name: str
    time_ms: str
    """The text of the handle; it has digits only, unless it is forged."""
    message_id: str
    """The unique key."""

    def encode(self) -> str:
        """Return the text that stands for it: base64 for URLs."""
        parts = (_VERSION, self.topic, self.broker_name, self.time_ms, self.message_id)
        return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read a handle. Raises ``RemoteProtocolError``, with Apache's words."""
        try:
            padded = text + "=" * (-len(text) % 4)
            data = base64.b64decode(padded.encode(), altchars=b"-_", validate=True)
            parts = data.decode().split(" ")
        except (ValueError, binascii.Error) as error:
            raise RemoteProtocolError(INVALID) from error
        if len(parts) < _FIELDS or parts[0] != _VERSION:
            raise RemoteProtocolError(INVALID)
        return cls(*parts[1:_FIELDS])
