"""Decoding of requests to a name server, beyond their headers."""

import re
import zlib
from typing import Final, NamedTuple

from lanemq.local import get_logger
from lanemq.wire import (
    MAX_GROUP_CHARACTERS,
    TOPIC_QUEUES_MAX,
    VIRTUAL_BROKERS_MAX,
    HostAddress,
    Refused,
    RemoteProtocolError,
    ResponseCode,
    Version,
    listed,
)
from lanemq.wire.bodies import DataVersion, RegisterBrokerBody, TopicConfigWrapper
from lanemq.wire.frame import JAVA, Frame
from lanemq.wire.headers import GetRouteInfo, RegisterBroker
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    TopicReport,
    logical_queues_by_topic,
)

from ..net._session import Session
from ..net.limits._names import NAME_BYTES_MAX, name_bytes
from .logical._registration import LogicalRegistration
from .logical._route_maker import Asker
from .routes._registration import RegisteredTopic
from .routes._table import RouteTable

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)

ZLIB_MARK: Final = b"\x78"
MEMORY_PER_BYTE: Final = 4
"""Memory that the texts of logical queues take at most, as a multiple of their characters."""
BYTES_OF_A_TOPIC: Final = 1024
"""Memory that a topic takes, about, without its logical queues."""
BYTES_OF_A_CHAIN: Final = 256
"""Memory that a logical queue takes, about, without its segments."""
BYTES_OF_A_SEGMENT: Final = 900
"""Memory that a segment takes, about, without its texts."""

ADDRESS_BYTES_MAX: Final = 512
"""The longest address; the name of a host has 253 bytes at most."""
TOPIC_BYTES_MAX: Final = 512
"""The longest topic: Apache's brokers of 5.x make one of a group and a topic, of 390 bytes, and do
not look at its length."""

_FILTER: Final = "logicalQueueIdsFilter"
_SET = re.compile(r"\[([0-9, ]*)\]")


class RegistrationRead(NamedTuple):
    """The parts of a registration that count. Its body is kept no longer than reading takes."""

    topics: tuple[RegisteredTopic, ...]
    data_version: DataVersion
    filter_servers: tuple[str, ...]
    logical: LogicalRegistration


def check_names(header: RegisterBroker) -> None:
    """Raise ``Refused`` where a name of a broker is too long to be kept."""
    _check_length("brokerName", header.broker_name, NAME_BYTES_MAX)
    _check_length("clusterName", header.cluster_name, NAME_BYTES_MAX)
    _check_length("brokerAddr", header.broker_addr, ADDRESS_BYTES_MAX)
    _check_length("haServerAddr", header.ha_server_addr, ADDRESS_BYTES_MAX)


def _check_length(what: str, text: str, most_bytes: int) -> None:
    if name_bytes(text) > most_bytes:
        remark = f"a {what} of {name_bytes(text)} bytes, at most {most_bytes} are kept"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


def _check_listener(listener: LogicalListenerReport) -> None:
    count = len(listener.addresses)
    if count > VIRTUAL_BROKERS_MAX:
        remark = f"a logical listener of {count} addresses, at most {VIRTUAL_BROKERS_MAX} are kept"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    for address in (listener.address, *listener.addresses):
        _check_length("address of a logical listener", address, ADDRESS_BYTES_MAX)
        HostAddress.parse(address)


def check_place(header: RegisterBroker, session: Session, routes: RouteTable) -> None:
    """Raise ``Refused`` where a peer gets no place for one more broker."""
    address, host = header.broker_addr, session.peer.host
    problem = routes.no_room(address, connection=session.id, host=host)
    if problem is not None:
        LOGGER.warning("broker %s %s is refused: %s", header.broker_name, address, problem)
        raise Refused(ResponseCode.SYSTEM_BUSY, problem)


def registration(header: RegisterBroker, frame: Frame) -> RegistrationRead:
    """Read the body of a registration.

    Raises ``Refused`` for a damaged one, for names that are too long and a listener of too many
    addresses, ``RemoteProtocolError`` for one that cannot be read.
    """
    if header.body_crc32 and header.body_crc32 != zlib.crc32(frame.body) & 0x7FFF_FFFF:
        LOGGER.warning("the registration of %s is damaged", header.broker_addr)
        raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    body, is_packed = registration_body(header, frame), is_compressed(header, frame)
    wrapper = body.topic_config_wrapper
    for server in body.filter_server_list:
        _check_length("filter server", server, ADDRESS_BYTES_MAX)
    for name in wrapper.topic_config_table:
        _check_length("topicName", name, TOPIC_BYTES_MAX)
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
    queues = logical_queues_by_topic(wrapper.extra)
    for name in queues or ():
        _check_length("topicName", name, TOPIC_BYTES_MAX)
    report = LogicalQueueReport.of(wrapper.extra)
    if report is not None and report.listener is not None:
        _check_listener(report.listener)
    said = LogicalRegistration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        data_version=wrapper.data_version,
        topics=dict.fromkeys(wrapper.topic_config_table),
        queues=queues,
        report=report,
        sizes={
            name: kept_bytes(found, None if report is None else report.topics.get(name))
            for name, found in (queues or {}).items()
        },
        is_compressed=is_packed,
    )
    topics = tuple(map(RegisteredTopic.of, wrapper.topic_config_table.values()))
    return RegistrationRead(topics, wrapper.data_version, body.filter_server_list, said)


def kept_bytes(queues: LogicalQueues, report: TopicReport | None) -> int:
    """Return the memory in bytes that a broker's logical queues of one topic take, about."""
    kept = BYTES_OF_A_TOPIC + BYTES_OF_A_CHAIN * len(queues)
    texts = 0 if report is None else len(report.encode())
    for one in queues.segments:
        queue = one.message_queue
        texts += len(queue.topic) + len(queue.broker_name) + len(one.broker_address or "")
        kept += BYTES_OF_A_SEGMENT
    return kept + MEMORY_PER_BYTE * texts


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
    ``RemoteProtocolError`` if such a one sends no set, and ``Refused`` as ``lanemq.wire.listed``.
    """
    if header.logical_queue_ids_filter is None or not header.apply_logical_queue_ids_filter:
        return None
    match = _SET.fullmatch(header.logical_queue_ids_filter)
    try:
        return frozenset(map(int, listed(_FILTER, match[1], ","))) if match else _no_set(header)
    except ValueError:
        return _no_set(header)


def _no_set(header: GetRouteInfo) -> frozenset[int]:
    text = header.logical_queue_ids_filter or ""
    raise RemoteProtocolError(f"{_FILTER} is {text[:40]!r}, not a set of numbers")
