"""Results of the benches of logical queues."""

import msgspec

from .._results import Machine


class LogicalBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench logical``."""

    machine: Machine
    rounds: int
    samples: dict[str, dict[str, list[float]]]
    """"listener" and "direct" -> measure -> one rate per round, in messages per second."""
    ratios: dict[str, float]
    """Measure -> the listener's median over the direct one."""
    processor_us: dict[str, dict[str, list[float]]]
    """Processor time of the broker per message, in microseconds, keyed like ``samples``. Other work
    on the machine changes it less than it does the rates."""


class ListenersBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench listeners``."""

    machine: Machine
    rounds: int
    clients: int
    """Client processes that send at the same time."""
    rates: dict[str, list[float]]
    """"one" and "two" listeners -> all clients' messages per second, one value per round."""
    ratio: float
    """The median with two listeners over that with one."""
    processor_us: dict[str, list[float]]
    """The same: what the brokers' processes spent on a message, in microseconds."""


class Migrations(msgspec.Struct, frozen=True):
    """One client that writes to a queue while it migrates. Lists have a value per migration."""

    took_ms: list[float]
    """Milliseconds from asking for a migration to its end."""
    pauses_ms: list[float]
    """The longest unusual wait of any sender, during or after the migration, in milliseconds."""
    quiet_ms: list[float]
    """The same in windows of the same length without a migration."""
    rates: dict[str, list[float]]
    """"here", "there" and "migrating" -> messages per second, one for each round: at the broker
    where a round begins, at the other, and while the queue goes from one to the other."""
    rate_kept: float
    """The median rate while migrating over the mean of the other two, as it is at each of the
    brokers for half of the time."""
    sent: int
    """Acknowledged messages."""
    failed: int
    """Sends that failed, each of which was repeated."""
    lost: int
    duplicated: int
    out_of_order: int


class MigrateBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench migrate``."""

    machine: Machine
    threads: int
    migrations: int
    clients: dict[str, Migrations]
    """Results by client, "java" and "sdk"."""
