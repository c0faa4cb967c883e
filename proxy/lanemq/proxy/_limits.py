"""Every bound a server puts on its peers, with what happens at the bound."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one server allows. The defaults suit a broker with some thousands of clients."""

    idle_s: float = 120.0
    """A connection that neither sent nor was sent a byte for this long is closed."""

    frame_s: float = 120.0
    """A frame must be complete this long after its first byte, or its connection is closed."""

    write_stall_s: float = 30.0
    """A peer that takes none of its waiting answers for this long is disconnected."""

    sweep_s: float = 5.0
    """How often the three times above are checked; they are exact to this many seconds."""

    in_flight_per_connection: int = 4096
    """Waiting requests (held pulls, synchronous flushes) of one connection; more of them are
    answered with SYSTEM_BUSY at once."""

    in_flight_total: int = 65536
    """The same for the whole process."""

    unsent_pause_bytes: int = 1 << 20
    """Above this many unsent bytes nothing more is read from the connection."""

    unsent_max_bytes: int = 64 << 20
    """Above this many the connection is closed: the peer asks but does not listen."""

    frame_max_bytes: int = 16 << 20
    """The longest frame read, its length word included; a longer one closes the connection."""

    connections_max: int = 20_000
    """Connections beyond this are closed as soon as they are accepted."""

    drain_s: float = 1.0
    """How long a stopping server waits for answers that are still on their way."""
