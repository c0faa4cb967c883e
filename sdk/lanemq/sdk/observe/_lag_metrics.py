"""Gauges of consumers' lag and of the age of their oldest messages, through OpenTelemetry.

Imported only where `ClientOptions.telemetry` asks for it, as ``_telemetry``. A meter may
ask for the values in another thread: it gets those of the latest statistics of each consumer, so a
queue that was given up has none.
"""

from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.metrics import CallbackOptions, Observation

from ._statistics import ConsumerStatistics, QueueStatistics
from ._telemetry import METER

_LATEST: Final[dict[object, ConsumerStatistics]] = {}
"""A consumer -> its latest statistics. Values are replaced, and never changed."""


def publish(consumer: object, statistics: ConsumerStatistics) -> None:
    """Let the gauges have ``statistics`` from now on."""
    _LATEST[consumer] = statistics


def forget(consumer: object) -> None:
    """Take a consumer out of the gauges: it ends."""
    _LATEST.pop(consumer, None)


def _observe(
    read: Callable[[QueueStatistics], float | None],
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        # Broadcasting consumers read the same queues: the one furthest behind counts.
        values: dict[tuple[str, str, str, int], float] = {}
        for statistics in list(_LATEST.values()):
            for one in statistics.queues:
                value, queue = read(one), one.queue
                if value is not None:
                    key = statistics.group, queue.topic, queue.broker_name, queue.queue_id
                    values[key] = max(value, values.get(key, value))
        for (group, topic, broker, number), value in values.items():
            yield Observation(
                value,
                {
                    "messaging.system": "rocketmq",
                    "messaging.consumer.group.name": group,
                    "messaging.destination.name": topic,
                    "messaging.destination.partition.id": str(number),
                    "lanemq.broker.name": broker,
                },
            )

    return observe


METER.create_observable_gauge(
    "lanemq.consumer.lag",
    [_observe(lambda one: one.lag)],
    "{message}",
    "Messages from a consumer's position to the end of a queue",
)
METER.create_observable_gauge(
    "lanemq.consumer.oldest_message.age",
    [_observe(lambda one: one.oldest_age_s)],
    "s",
    "Age of the first message of a queue that is not finished",
)
