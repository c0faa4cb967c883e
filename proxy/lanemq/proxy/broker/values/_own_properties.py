"""The properties that a broker adds to every message it stores.

Source: RocketMQ 4.9.8, SendMessageProcessor.
"""

import enum
from typing import Final, final

from lanemq.wire.message import Property, decode_properties

from ..settings._config import BrokerConfig


class Kind(enum.Enum):
    """The kind of a message, by its properties."""

    PLAIN = "plain"
    """Neither delayed nor part of a transaction, and without a timer, for sure."""
    HALF = "half"
    """Certainly part of a transaction, and nothing else."""
    SPECIAL = "special"
    """Possibly more than that: has to be looked at more closely."""


Kept = tuple[str, bool, Kind]
"""The property string to store, whether the sender lets wait for the disk, and the kind."""

_DELAY: Final = f"{Property.DELAY}\x01"
_TIMERS: Final = "TIMER_D"
"""A text in the names of all properties that set a timer."""
_HALF: Final = f"{Property.TRAN_MSG}\x01"
_IS_HALF: Final = f"{_HALF}true"

_UNIQUE_AT_FIRST: Final = f"{Property.UNIQ_KEY}\x01"
_KNOWN_MAX: Final = 256
_KNOWN_CHARACTERS_MAX: Final = 512
"""Length of the longest string that is remembered: memory must not grow with what peers send."""


def answered_properties(config: BrokerConfig) -> dict[str, str]:
    """Return the properties that a sender is told of, too."""
    return {
        Property.MSG_REGION: config.region_id,
        Property.TRACE_ON: "true" if config.trace_on else "false",
    }


@final
class OwnProperties:
    """The properties of one broker."""

    def __init__(self, config: BrokerConfig) -> None:
        stored = answered_properties(config) | {Property.CLUSTER: config.broker_cluster_name}
        # Added to what the sender wrote, in its order. A client that sends a message again may
        # have them in it already; then they are taken out first, so that strings do not grow.
        self.tail: Final = "".join(f"{name}\x01{value}\x02" for name, value in stored.items())
        """The property string of these properties alone."""
        self.names: Final = tuple(stored)
        self._known: dict[str, Kept] = {}

    def to_store(self, text: str) -> Kept:
        """Return the property string to store for a message with the property string ``text``.

        Messages of a sender are often alike but for the unique key, which comes first: what is
        behind it is looked at once.
        """
        if text.startswith(_UNIQUE_AT_FIRST):
            end = text.find("\x02")
            if end > 0:
                rest = text[end:]
                kept = self._known.get(rest)
                if kept is None:
                    kept = self._learn(rest)
                return text[:end] + kept[0], kept[1], kept[2]
        return self._look(text)

    def _learn(self, rest: str) -> Kept:
        """Examine and remember the properties behind the unique key, from the separator on."""
        stored, waits, kind = self._look(rest)
        kept = stored if stored[0] == "\x02" else f"\x02{stored}", waits, kind
        if len(rest) <= _KNOWN_CHARACTERS_MAX:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[rest] = kept
        return kept

    def _look(self, text: str) -> Kept:
        """Do ``to_store`` for any text; quick for the properties of ordinary messages.

        The string to store is that of ``added_to``.
        """
        kind = _kind_of(text)
        wait_at = text.find("WAIT\x01")
        if (
            "CLUSTER\x01" in text
            or "MSG_REGION\x01" in text
            or "TRACE_ON\x01" in text
            or wait_at == 0
            or (wait_at > 0 and text[wait_at - 1] != "\x02")
        ):
            waits = decode_properties(text).get(Property.WAIT) != "false"
            return self.added_to(text), waits, kind
        waits = True
        if wait_at > 0:  # the wish to wait for the disk is obeyed, not stored
            waits = not text.startswith("false", wait_at + 5)
            end = text.find("\x02", wait_at) + 1
            text = text[:wait_at] + (text[end:] if end else "")
        if text and text[-1] != "\x02":
            text += "\x02"
        return text + self.tail, waits, kind

    def added_to(self, text: str) -> str:
        """Return the property string to store: without WAIT, with this broker's properties."""
        if "\x01" not in text:
            return self.tail
        kept = [
            part
            for part in text.split("\x02")
            if part
            and part.partition("\x01")[0] not in self.names
            and not part.startswith("WAIT\x01")
        ]
        return "".join([f"{part}\x02" for part in kept]) + self.tail


def _kind_of(text: str) -> Kind:
    if _DELAY in text or _TIMERS in text:
        return Kind.SPECIAL
    if _HALF not in text:
        return Kind.PLAIN
    is_half = text.count(_HALF) == 1 and _IS_HALF in text.split("\x02")
    return Kind.HALF if is_half else Kind.SPECIAL
