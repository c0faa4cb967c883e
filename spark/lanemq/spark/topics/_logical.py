"""The logical queues that a queue's messages belong to, as its broker tells."""

from lanemq.sdk.admin import AdminClient
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import index_of, logical_broker_number

from ..records import LogicalPlaces


async def logical_places(
    admin: AdminClient, address: str, queue: MessageQueue
) -> LogicalPlaces | None:
    """Return where messages of a queue are in logical queues; None where its topic has none.

    A queue that a logical listener gives is a logical one. Raises ``LanemqError``.
    """
    topic, name = queue.topic, queue.broker_name
    number = logical_broker_number(name)
    if number is not None:
        listed = (await admin.route(topic)).queue_datas
        brokers = sum(logical_broker_number(one.broker_name) is not None for one in listed)
        return LogicalPlaces({}, index_of(number, queue.queue_id, brokers))
    # A name server tells of any broker, also of Apache's, which does not know the question.
    if await admin.routed_logical_queues(topic) is None:
        return None
    queues = await admin.logical_queues(address, topic)
    return None if queues is None else LogicalPlaces.of({topic: queues}, name)
