"""Decoding of requests to a name server, beyond their headers."""

import re
import zlib
from typing import Final

from lanemq.local import get_logger
from lanemq.wire import (
    MAX_GROUP_CHARACTERS,
    TOPIC_QUEUES_MAX,
    Refused,
    RemoteProtocolError,
    ResponseCode,
    Version,
)
from lanemq.wire.bodies import RegisterBrokerBody, TopicConfigWrapper
from lanemq.wire.frame import JAVA, Frame
from lanemq.wire.headers import GetRouteInfo, RegisterBroker
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    LogicalQueueReport,
    logical_queues_by_topic,
)

from .logical._registration import LogicalRegistration
from .logical._routes import Asker

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)

ZLIB_MARK: Final = b"\x78"
MEMORY_PER_BYTE: Final = 4
"""Memory that topics and logical queues take, about, as a multiple of their bytes in a
registration."""

_SET = re.compile(r"\[([0-9, ]*)\]")


RegistrationRead = tuple[RegisterBrokerBody, LogicalRegistration]


def registration(header: RegisterBroker, frame: Frame) -> RegistrationRead:
    """Read the body of a registration, and its part about logical queues.

    Raises ``Refused`` for a damaged one, ``RemoteProtocolError`` for one that cannot be read.
    """
    if header.body_crc32 and header.body_crc32 != zlib.crc32(frame.body) & 0x7FFF_FFFF:
        LOGGER.warning("the registration of %s is damaged", header.broker_addr)
        raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    body, is_packed = registration_body(header, frame), is_compressed(header, frame)
    wrapper = body.topic_config_wrapper
    for topic in wrapper.topic_config_table.values():
        if topic.queue_count > TOPIC_QUEUES_MAX:
            LOGGER.warning(
                "broker %r claims %d queues of topic %r: clients are told of %d",
                header.broker_name[:MAX_GROUP_CHARACTERS],
                topic.queue_count,
                topic.topic_name[:MAX_GROUP_CHARACTERS],
                TOPIC_QUEUES_MAX,
            )
            break
    said = LogicalRegistration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        data_version=wrapper.data_version,
        topics=wrapper.topic_config_table.keys(),
        queues=logical_queues_by_topic(wrapper.extra),
        report=LogicalQueueReport.of(wrapper.extra),
        size_bytes=MEMORY_PER_BYTE * len(frame.body),
        is_compressed=is_packed,
    )
    return body, said


def registration_body(header: RegisterBroker, frame: Frame) -> RegisterBrokerBody:
    """Decode a registration's body; an empty one is of a broker with no topics and version 0."""
    if not frame.body:
        return RegisterBrokerBody()
    if frame.version < Version.V3_0_11:
        return RegisterBrokerBody(TopicConfigWrapper.decode(frame.body))
    if is_compressed(header, frame):
        return RegisterBrokerBody.decode_compressed(frame.body)
    return RegisterBrokerBody.decode(frame.body)


def reading_bytes(header: RegisterBroker, frame: Frame) -> int:
    """Return the memory in bytes that it takes, about, to read a registration.

    Raises ``RemoteProtocolError`` for one that is broken, too long, or has too many values.
    """
    return RegisterBrokerBody.reading_bytes(frame.body, is_compressed=is_compressed(header, frame))


def is_compressed(header: RegisterBroker, frame: Frame) -> bool:
    """Return whether a registration came in the compressed form."""
    # Told to compress, a broker of 5.3.3 does so and its header denies it: its own name server
    # refuses it. No JSON begins as a zlib stream does.
    is_young = frame.version >= Version.V3_0_11
    return bool(frame.body) and is_young and (header.compressed or frame.body[:1] == ZLIB_MARK)


def asker(header: GetRouteInfo, frame: Frame) -> Asker:
    """Return the kind of client that asks for a route."""
    if header.sys_flag is None or not header.sys_flag & LOGICAL_QUEUE_FLAG:
        return Asker.OLD
    return Asker.FLAGGED_JAVA if frame.language == JAVA else Asker.FLAGGED


def wanted_indices(header: GetRouteInfo) -> frozenset[int] | None:
    """Return the indices that a client wants; None for all.

    Java clients send some too, and take an answer that heeds them for no news at all: a name
    server of theirs cannot read the set. So a client that means it says so. Raises
    ``RemoteProtocolError`` if such a one sends no set.
    """
    if header.logical_queue_ids_filter is None or not header.apply_logical_queue_ids_filter:
        return None
    match = _SET.fullmatch(header.logical_queue_ids_filter)
    try:
        return frozenset(map(int, match[1].split(","))) if match else _no_set(header)
    except ValueError:
        return _no_set(header)


def _no_set(header: GetRouteInfo) -> frozenset[int]:
    text = header.logical_queue_ids_filter or ""
    raise RemoteProtocolError(f"logicalQueueIdsFilter is {text[:40]!r}, not a set of numbers")
