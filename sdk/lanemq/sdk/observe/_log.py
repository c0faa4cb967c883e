"""Loggers whose records say what they are about in fields, not in words only.

What a message of the log is formatted from, a queue, a received message, an error, gives its
fields to the record as well, under names that begin with ``lanemq_``: handlers that write
JSON find them there.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, final

from lanemq import local
from lanemq.wire.bodies import MessageQueue

from .._errors import LanemqError
from .._messages import ReceivedMessage

PREFIX = "lanemq_"


def get_logger(name: str, *, by_peers: bool = False) -> logging.Logger:
    """Return the logger ``name``; its records get fields before any handler sees them.

    With ``by_peers``, for lines that servers cause as often as they like, it logs twenty
    of a kind a minute, and counts the others.
    """
    logger = logging.getLogger(name)
    if not any(isinstance(known, _Fields) for known in logger.filters):
        logger.addFilter(_Fields())  # before the arguments are replaced by what is shown of them
    return local.get_logger(name, by_peers=by_peers)


@final
class _Fields(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        for argument in arguments:
            for name, value in _fields(argument):
                record.__dict__.setdefault(PREFIX + name, value)
        return True


def _fields(argument: object) -> Iterator[tuple[str, Any]]:
    if isinstance(argument, MessageQueue):
        yield "topic", argument.topic
        yield "broker", argument.broker_name
        yield "queue_id", argument.queue_id
    elif isinstance(argument, ReceivedMessage):
        yield "message_id", argument.message_id
        yield "topic", argument.topic
        yield "broker", argument.queue.broker_name
        yield "queue_id", argument.queue.queue_id
        yield "queue_offset", argument.queue_offset
        yield "reconsume_times", argument.reconsume_times
    elif isinstance(argument, LanemqError):
        yield "error", type(argument).__name__
        for name in ("address", "code", "topic"):
            if hasattr(argument, name):
                yield name, getattr(argument, name)
    elif isinstance(argument, Sequence) and argument and isinstance(argument[0], ReceivedMessage):
        yield from _fields(argument[0])
        yield "message_ids", [message.message_id for message in argument]
