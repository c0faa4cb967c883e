"""Namespaces: ``NS%topic`` at the brokers, ``topic`` here.

A namespace is a matter of clients only; brokers know nothing but longer names. Names of the
system belong to no namespace, and neither do the topics of replies, which a broker names.

Source: RocketMQ 4.9.8, NamespaceUtil.
"""

from typing import Final

from lanemq.wire import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    is_system_group,
    is_system_topic,
    reply_topic,
)
from lanemq.wire.bodies import MessageQueue

SEPARATOR: Final = "%"
REPLY_SUFFIX: Final = reply_topic("")


def _split(name: str) -> tuple[str, str]:
    """Return the prefix of a retry or dead letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def in_namespace(namespace: str, name: str) -> str:
    """Return the name that brokers have for a topic or group; one that has it already keeps it."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix, rest = _split(name)
    if rest.startswith(namespace + SEPARATOR) or name.endswith(REPLY_SUFFIX):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def out_of_namespace(namespace: str, name: str) -> str:
    """Return the name that applications have for a topic or group; that of another namespace
    stays."""
    if not namespace:
        return name
    prefix, rest = _split(name)
    return prefix + rest.removeprefix(namespace + SEPARATOR)


def queue_in(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return ``queue`` with its topic as brokers know it."""
    if not namespace:
        return queue
    return MessageQueue(in_namespace(namespace, queue.topic), queue.broker_name, queue.queue_id)


def queue_out(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return ``queue`` with its topic as applications know it."""
    if not namespace:
        return queue
    topic = out_of_namespace(namespace, queue.topic)
    return MessageQueue(topic, queue.broker_name, queue.queue_id)
