"""What a broker adds to the properties of every message that it stores.

Source: RocketMQ 4.9.8, SendMessageProcessor.
"""

from typing import Final, final

from lanemq.wire import Property

from ._config import BrokerConfig


def answered_properties(config: BrokerConfig) -> dict[str, str]:
    """Those that a sender is told of, too."""
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
        """The property string of them alone."""
        self.names: Final = tuple(stored)

    def added_to(self, text: str) -> str:
        """The property string to store: without WAIT, with what this broker adds."""
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
