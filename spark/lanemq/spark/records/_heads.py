"""The fixed fields of many records at once, and where their variable ones lie.

Integers of a record are signed and big-endian; positions count bytes of the commit log.
Source: RocketMQ 4.9.8, CommitLog.checkMessageAndReturnSize; 5.3.3, MessageVersion.
"""

import re
from dataclasses import dataclass, replace
from struct import calcsize
from typing import Any, Final, final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lanemq.wire import SysFlag, fixed_prefix
from lanemq.wire.message import MAGIC_V1, RECORD_LAYOUTS

from . import _walk
from ._gather import Ints, gather

Bools = npt.NDArray[np.bool_]
HOSTS_V6: Final = int(SysFlag.HOSTS_V6_MASK)
CRC_MASK: Final = 0x7FFFFFFF
FIELDS: Final = (
    "size_bytes",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "log_position",
    "sys_flag",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_size",
)


def _head_type(hosts: int) -> "np.dtype[Any]":
    """Return the declared fields before the body as a numpy type."""
    layout = fixed_prefix(RECORD_LAYOUTS[MAGIC_V1, hosts])
    formats: list[str] = []
    for count, code in re.findall(r"(\d*)([a-z])", layout.struct.format):
        if code == "s":
            formats.append(f"V{count}")
        else:
            formats += [f">i{calcsize('>' + code)}"] * int(count or 1)
    return np.dtype(list(zip(layout.names, formats, strict=True)))


HEADS: Final = {
    hosts: _head_type(hosts)
    for hosts in (0, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_V6_MASK)
}
HEAD_BYTES: Final = HEADS[0].itemsize
HOST_AT: Final = {"born_host": 48, "store_host": 64}
"""The places of hosts in a head without IPv6."""
assert [HEADS[0].fields[name][1] for name in HOST_AT] == list(HOST_AT.values())  # type: ignore[index] # numpy: structs have fields
RECORD_BYTES_MIN: Final = HEAD_BYTES + 3
"""A head, and the lengths of topic and properties."""


@final
class Fields:
    """The fields of the heads of some records, each made when it is asked for."""

    def __init__(self, heads: Any, made: dict[str, Ints] | None = None) -> None:  # noqa: ANN401 - numpy's structs
        self._heads = heads
        self._made = made or {}

    def __getitem__(self, name: str) -> Ints:
        values = self._made.get(name)
        if values is None:
            values = self._made[name] = self._heads[name].astype(np.int64)
        return values

    def take(self, rows: Any) -> "Fields":  # noqa: ANN401 - whatever numpy takes as an index
        """Return the fields of some of the records."""
        made = {name: values[rows] for name, values in self._made.items()}
        return Fields(self._heads[rows], made)

    def put(self, rows: Ints, heads: Any) -> None:  # noqa: ANN401 - numpy's structs
        """Take the fields of some of the records from heads of another form."""
        for name in FIELDS:
            self[name][rows] = heads[name]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records within ``data``, as arrays with an element for each; places count bytes of it."""

    data: bytes | memoryview
    fields: "Fields"
    """The fields of ``FIELDS``, as stored."""
    start: Ints
    body_at: Ints
    body_end: Ints
    topic_at: Ints
    topic_end: Ints
    properties_at: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Any) -> "Records":  # noqa: ANN401 - whatever numpy takes as an index
        """Return some of the records, in the same order."""
        places = {name: getattr(self, name)[rows] for name in PLACES}
        return replace(self, fields=self.fields.take(rows), **places)

    def host_at(self, name: str) -> Ints:
        """Return where ``born_host`` or ``store_host`` lies."""
        at: Ints = self.start + HOST_AT[name]
        if name == "store_host":
            at = at + 12 * ((self.fields["sys_flag"] & SysFlag.BORN_HOST_V6) != 0)
        return at


PLACES: Final = (
    "start",
    "body_at",
    "body_end",
    "topic_at",
    "topic_end",
    "properties_at",
    "end",
)


def walk_sizes(data: bytes | memoryview, at: int, stop: int) -> tuple[Ints, int]:
    """Walk from record to record by their sizes alone; no record begins at or behind ``stop``.

    Returns the places of those that lie in ``data`` whole, and where the walk ended.
    """
    return _walk.walk_sizes(data, at, stop, least=RECORD_BYTES_MIN)


def decode_records(data: bytes | memoryview, starts: Ints) -> Records:
    """Find the fields of the records at ``starts``, which lie in ``data`` whole by their sizes.

    What does not fit gives places that ``sound_records`` refuses, but none outside of ``data``.
    """
    raw = np.frombuffer(data, np.uint8)
    fields = Fields(_heads(data, starts, HEADS[0]))
    hosts = fields["sys_flag"] & HOSTS_V6
    end = starts + fields["size_bytes"]
    body_at = starts + HEAD_BYTES
    if hosts.any():
        for kind in (SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_V6_MASK):
            head = HEADS[kind]
            rows = np.flatnonzero((hosts == kind) & (starts + head.itemsize + 3 <= end))
            if len(rows):
                fields.put(rows, _heads(data, starts[rows], head))
            body_at[hosts == kind] += head.itemsize - HEAD_BYTES
    body_end = np.minimum(body_at + np.maximum(fields["body_size"], 0), end - 3)
    magic_low = raw[starts + 7]
    is_short = magic_low == MAGIC_V1 & 0xFF
    first = raw[body_end].astype(np.int64)
    topic_at = body_end + np.where(is_short, 1, 2)
    topic_size = np.where(is_short, first, first << 8 | raw[body_end + 1])
    topic_end = np.minimum(topic_at + topic_size, end - 2)
    return Records(
        data=data,
        fields=fields,
        start=starts,
        body_at=body_at,
        body_end=body_end,
        topic_at=topic_at,
        topic_end=topic_end,
        properties_at=topic_end + 2,
        end=end,
    )


def _heads(data: bytes | memoryview, starts: Ints, head: "np.dtype[Any]") -> Any:  # noqa: ANN401 - numpy's structs
    if not len(starts):
        return np.empty(0, head)
    # Heads at every byte, of which some are copied: numpy's own loop over the records.
    whole = np.dtype(f"V{head.itemsize}")
    heads = np.ndarray((len(data) - head.itemsize + 1,), whole, data, strides=(1,))[starts]
    return heads.view(head)


def sound_records(records: Records, position: int | None) -> int:
    """Return how many records, from the first on, are as a record has to be but for their bodies.

    ``position`` of the log is where ``records.data`` begins; None where the records came by
    themselves, and may be of anywhere.
    """
    fields, raw = records.fields, np.frombuffer(records.data, np.uint8)
    if not len(records):
        return 0
    high = raw[records.topic_end].astype(np.int64)
    size = high << 8 | raw[records.topic_end + 1]
    size = np.where(size >= 1 << 15, 0, size)  # a negative length counts as 0
    is_short = raw[records.start + 7] == MAGIC_V1 & 0xFF
    longest = np.where(is_short, 127, (1 << 15) - 1)
    sound = (
        (fields["body_size"] >= 0)
        & (records.body_end == records.body_at + fields["body_size"])
        & (records.topic_end - records.topic_at <= longest)
        & (records.properties_at + size == records.end)
    )
    if position is not None:
        sound &= fields["log_position"] == position + records.start
    if not sound.all():
        records = records.take(slice(0, int(np.argmin(sound))))
    return _readable_topics(records)


def _readable_topics(records: Records) -> int:
    """Return how many records have a topic of UTF-8, up to the first other one."""
    topics = gather(records.data, records.topic_at, records.topic_end)
    try:
        topics.cast(pa.string())
    except pa.ArrowInvalid:
        for number, name in enumerate(topics.to_pylist()):
            try:
                name.decode()
            except UnicodeDecodeError:
                return number
    return len(records)


def matching_bodies(records: Records) -> Bools:
    """Return which bodies agree with their checksums; a body of no bytes has none."""
    view = memoryview(records.data)
    bodies = map(slice, records.body_at.tolist(), records.body_end.tolist())
    # The library's checksum takes one body at a time; map calls it without Python in between.
    found = np.fromiter(map(crc32, map(view.__getitem__, bodies)), np.int64, len(records))
    agree: Bools = found & CRC_MASK == records.fields["body_crc"]
    agree |= records.fields["body_size"] == 0
    return agree
