"""The bounds of a server on its peers, and the consequence of each."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of one server. The defaults suit a broker with some thousands of clients."""

    idle_s: float = 120.0
    """A connection that neither sent nor was sent a byte for this long is closed."""

    frame_s: float = 120.0
    """A frame must be complete this long after its first byte, or its connection is closed."""

    handshake_s: float = 10.0
    """A TLS handshake must be complete this long after its first byte."""

    write_stall_s: float = 30.0
    """A peer that takes none of its waiting answers for this long is disconnected."""

    sweep_s: float = 5.0
    """Seconds between checks of the three times above, and so their precision."""

    in_flight_per_connection: int = 4096
    """Waiting requests (held pulls, synchronous flushes) of one connection; more of them are
    answered with SYSTEM_BUSY at once."""

    in_flight_total: int = 65536
    """The same for the whole server; a connection and an address have their shares of it
    (``has_share``)."""

    in_flight_pause_bytes: int = 32 << 20
    """Bytes of waiting requests above which nothing more is read from their connection."""

    unsent_pause_bytes: int = 1 << 20
    """Unsent bytes above which no request of the connection is handled, and no parked pull
    answered, until all of them are sent."""

    unsent_max_bytes: int = 64 << 20
    """Unsent bytes in memory above which the connection is closed: the peer asks but does not
    listen."""

    frame_max_bytes: int = 16 << 20
    """The longest frame read, its length word included; a longer one closes the connection."""

    connections_max: int = 20_000
    """Connections beyond this are closed as soon as they are accepted, and so are those for
    which file descriptors would not do."""

    drain_s: float = 1.0
    """Seconds that a stopping server waits for answers that are still on their way."""
