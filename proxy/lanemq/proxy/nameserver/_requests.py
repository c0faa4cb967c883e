"""What requests to a name server say, where that is not plain from their headers."""

import re
from typing import Final

from lanemq.wire import (
    Frame,
    GetRouteInfo,
    RegisterBroker,
    RegisterBrokerBody,
    RemoteProtocolError,
    TopicConfigWrapper,
    Version,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    LogicalQueueReport,
    logical_queues_by_topic,
)

from ._logical import Asker, LogicalRegistration

JAVA: Final = "JAVA"
ZLIB_MARK: Final = b"\x78"

_SET = re.compile(r"\[([0-9, ]*)\]")


def registration_body(header: RegisterBroker, frame: Frame) -> RegisterBrokerBody:
    """What a broker brought along; nothing at all is a broker with no topics and version 0."""
    if not frame.body:
        return RegisterBrokerBody()
    if frame.version < Version.V3_0_11:
        return RegisterBrokerBody(TopicConfigWrapper.decode(frame.body))
    if is_compressed(header, frame):
        return RegisterBrokerBody.decode_compressed(frame.body)
    return RegisterBrokerBody.decode(frame.body)


def is_compressed(header: RegisterBroker, frame: Frame) -> bool:
    """Whether a registration came in the compressed form."""
    # Told to compress, a broker of 5.3.3 does so and its header denies it: its own name server
    # refuses it. No JSON begins as a zlib stream does.
    is_young = frame.version >= Version.V3_0_11
    return bool(frame.body) and is_young and (header.compressed or frame.body[:1] == ZLIB_MARK)


def logical_registration(
    header: RegisterBroker, wrapper: TopicConfigWrapper, *, is_compressed: bool
) -> LogicalRegistration:
    """What a broker says about logical queues as it registers.

    Raises ``RemoteProtocolError`` if that is not to be understood.
    """
    return LogicalRegistration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        data_version=wrapper.data_version,
        topics=wrapper.topic_config_table.keys(),
        queues=logical_queues_by_topic(wrapper.extra),
        report=LogicalQueueReport.of(wrapper.extra),
        is_compressed=is_compressed,
    )


def asker(header: GetRouteInfo, frame: Frame) -> Asker:
    """Who asks for a route."""
    if header.sys_flag is None or not header.sys_flag & LOGICAL_QUEUE_FLAG:
        return Asker.OLD
    return Asker.FLAGGED_JAVA if frame.language == JAVA else Asker.FLAGGED


def wanted_indices(header: GetRouteInfo) -> frozenset[int] | None:
    """The indices that a client wants; None for all.

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
    raise RemoteProtocolError(f"logicalQueueIdsFilter is {text[:40]!r}, no set of numbers")
