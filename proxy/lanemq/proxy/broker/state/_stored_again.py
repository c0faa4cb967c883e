"""Messages that a broker stores once more, at another place: due, given back, or appended again."""

from lanemq.storage import NewMessage
from lanemq.wire.message import StoredMessage


def stored_again(
    message: StoredMessage,
    topic: str,
    queue_id: int,
    *,
    properties: bytes | None = None,
    store_host: bytes | None = None,
    reconsume_times: int | None = None,
) -> NewMessage:
    """Make a copy of a stored message for another queue; fields that are not given stay as they
    are."""
    tries = message.reconsume_times if reconsume_times is None else reconsume_times
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=message.properties_data if properties is None else properties,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host.packed,
        store_host=store_host or message.store_host.packed,
        reconsume_times=tries,
        was_taken=True,
    )
