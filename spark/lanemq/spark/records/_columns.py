"""The columns of messages, each made when it is asked for."""

from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lanemq.wire import HostAddress, RemoteProtocolError, SysFlag
from lanemq.wire.message import Property, decompress_body

from ._gather import ArrowArray, Ints, gather, strings
from ._heads import Records, matching_bodies
from ._logical import LogicalPlaces
from ._properties import PropertyColumns

MAP: Final = pa.map_(pa.string(), pa.string())
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
MS_MIN: Final = -62_135_596_800_000
MS_MAX: Final = 253_402_300_799_999
"""The years 1 to 9999: Python and Spark show no others, and a row with one could not be
collected."""
HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
POSITION_BYTES: Final = 8


class Unreadable(NamedTuple):
    """A body that cannot be given: the row, and what is wrong for people."""

    row: int
    why: str


@final
class RecordColumns:
    """The columns of some records, by the names of ``COLUMN_TYPES``.

    ``places``: the segments of logical queues at their broker, where it has any.
    """

    def __init__(
        self, records: Records, *, check_crc: bool = True, places: LogicalPlaces | None = None
    ) -> None:
        self.records = records
        self._check_crc = check_crc
        self._places = places
        self.unreadable: list[Unreadable] = []
        """The bodies that are null in the column ``body``, once it was made."""

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> ArrowArray:
        """Return one column."""
        number = INTEGERS.get(name)
        if number is not None:
            kind = COLUMN_TYPES[name]
            return pa.array(self.records.fields[number], pa.int64()).cast(kind, safe=False)
        return MAKERS[name](self)

    @cached_property
    def properties(self) -> PropertyColumns:
        records = self.records
        return PropertyColumns(records.data, records.properties_at, records.end)

    def topics(self) -> ArrowArray:
        records = self.records
        return strings(gather(records.data, records.topic_at, records.topic_end))

    def message_ids(self) -> ArrowArray:
        """Return the unique keys that senders made, or offset ids where they made none."""
        unique = self.properties.get(Property.UNIQ_KEY)
        return pc.coalesce(unique, self.offset_ids()) if unique.null_count else unique

    def offset_ids(self) -> ArrowArray:
        """Return the ids that name a broker and a place in its log."""
        records, ids = self.records, []
        for rows, size in _by_host_size(records, SysFlag.STORE_HOST_V6):
            hosts = _fixed(records.data, records.host_at("store_host")[rows], size)
            positions = records.fields["log_position"][rows].astype(">i8").view(np.uint8)
            packed = np.concatenate([hosts, positions.reshape(-1, POSITION_BYTES)], axis=1)
            digits = np.stack([HEX[packed >> 4], HEX[packed & 15]], axis=2).reshape(-1)
            ids.append((rows, _fixed_strings(digits, 2 * (size + POSITION_BYTES), len(rows))))
        return _joined(ids, pa.string())

    def bodies(self) -> ArrowArray:
        """Return bodies, decompressed; null where one is damaged."""
        records = self.records
        bodies = gather(records.data, records.body_at, records.body_end)
        flags = records.fields["sys_flag"]
        packed = (flags & SysFlag.COMPRESSED) != 0
        if self._check_crc:
            wrong = ~matching_bodies(records)
            if wrong.any():
                rows = np.flatnonzero(wrong).tolist()
                self.unreadable += [Unreadable(row, "its body fails the checksum") for row in rows]
                nothing = pa.nulls(len(rows), pa.binary())
                bodies = pc.replace_with_mask(bodies, pa.array(wrong), nothing)
                packed &= ~wrong
        rows = np.flatnonzero(packed).tolist()
        if not rows:
            return bodies
        plain = [self._unpacked(row, int(flags[row]), bodies[row].as_py()) for row in rows]
        return pc.replace_with_mask(bodies, pa.array(packed), pa.array(plain, pa.binary()))

    def _unpacked(self, row: int, flag: int, body: bytes) -> bytes | None:
        try:
            return decompress_body(flag, body)
        except RemoteProtocolError as error:
            self.unreadable.append(Unreadable(row, str(error)))
            return None

    def hosts(self, name: str, flag: int) -> ArrowArray:
        """Return addresses as ``host:port``."""
        records, found = self.records, []
        for rows, size in _by_host_size(records, flag):
            data = _fixed(records.data, records.host_at(name)[rows], size)
            kind = pa.binary(size)
            packed = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(data)])
            encoded = packed.dictionary_encode()
            texts = [str(HostAddress.unpack(one)) for one in encoded.dictionary.to_pylist()]
            found.append((rows, pa.array(texts, pa.string()).take(encoded.indices)))
        return _joined(found, pa.string())

    def logical_queues(self) -> ArrowArray:
        """Return the index of each message's logical queue, null where it is in none."""
        if self._places is None:
            return pa.nulls(len(self), pa.int32())
        fields = self.records.fields
        return self._places.column(self.topics(), fields["queue_id"], fields["queue_offset"])

    def timestamps(self, name: str) -> ArrowArray:
        return times(self.records.fields[name])

    def odd_headers(self) -> list[Unreadable]:
        """Return the rows with a field that cannot be right, and that no checksum covers, in their
        order."""
        fields = self.records.fields
        found = []
        for name, text in TIME_FIELDS.items():
            wrong = (fields[name] < 0) | (fields[name] > MS_MAX)
            for row in np.flatnonzero(wrong).tolist():
                found.append(Unreadable(row, f"its {text} is {int(fields[name][row])} ms"))
        for name, text in COUNT_FIELDS.items():
            for row in np.flatnonzero(fields[name] < 0).tolist():
                found.append(Unreadable(row, f"its {text} is {int(fields[name][row])}"))
        records = self.records
        for name, flag in HOST_FIELDS.items():
            for rows, size in _by_host_size(records, flag):
                hosts = _fixed(records.data, records.host_at(name)[rows], size)
                ports = np.ascontiguousarray(hosts[:, -4:]).view(">u4").reshape(-1)
                for number in np.flatnonzero(ports > PORT_MAX).tolist():
                    text = f"its {name.replace('_', ' ')} has port {int(ports[number])}"
                    found.append(Unreadable(int(rows[number]), text))
        properties = gather(records.data, records.properties_at, records.end)
        try:
            properties.cast(pa.string())
        except pa.ArrowInvalid:
            for row, data in enumerate(properties.to_pylist()):
                try:
                    data.decode()
                except UnicodeDecodeError as error:
                    why = f"its properties are not UTF-8 at byte {error.start}"
                    found.append(Unreadable(row, why))
        return sorted(found)


TIME_FIELDS: Final = {"born_timestamp_ms": "born time", "store_timestamp_ms": "store time"}
COUNT_FIELDS: Final = {"queue_id": "queue", "reconsume_times": "number of attempts"}
HOST_FIELDS: Final = {"born_host": SysFlag.BORN_HOST_V6, "store_host": SysFlag.STORE_HOST_V6}
PORT_MAX: Final = 65_535


def times(milliseconds: Ints) -> ArrowArray:
    """Return times as Spark has them; one that no year has becomes the nearest that one has."""
    return pa.array(np.clip(milliseconds, MS_MIN, MS_MAX) * 1000, pa.int64()).view(TIMESTAMP)


def _by_host_size(records: Records, flag: int) -> list[tuple[Ints, int]]:
    """Return the rows with hosts of 8 bytes, and those with hosts of 20; none where there are
    none."""
    long = (records.fields["sys_flag"] & flag) != 0
    groups = [(np.flatnonzero(~long), 8), (np.flatnonzero(long), 20)]
    return [group for group in groups if len(group[0])]


def _fixed(data: bytes | memoryview, at: Ints, size: int) -> "np.typing.NDArray[np.uint8]":
    kind = np.dtype(f"V{size}")
    found = np.ndarray((len(data) - size + 1,), kind, data, strides=(1,))[at]
    return np.ascontiguousarray(found).view(np.uint8).reshape(-1, size)


def _fixed_strings(digits: "np.typing.NDArray[np.uint8]", size: int, count: int) -> ArrowArray:
    offsets = np.arange(count + 1, dtype=np.int32) * size
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits))]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _joined(groups: list[tuple[Ints, ArrowArray]], kind: ArrowArray) -> ArrowArray:
    """Return the values of all groups in the order of their rows."""
    if not groups:
        return pa.array([], kind)
    if len(groups) == 1:
        return groups[0][1]
    rows = np.concatenate([rows for rows, _ in groups])
    return pa.concat_arrays([values for _, values in groups]).take(pa.array(np.argsort(rows)))


MAKERS: Final[dict[str, Callable[[RecordColumns], ArrowArray]]] = {
    "topic": RecordColumns.topics,
    "logicalQueue": RecordColumns.logical_queues,
    "msgId": RecordColumns.message_ids,
    "offsetMsgId": RecordColumns.offset_ids,
    "keys": lambda columns: columns.properties.get(Property.KEYS),
    "tags": lambda columns: columns.properties.get(Property.TAGS),
    "body": RecordColumns.bodies,
    "properties": lambda columns: columns.properties.maps(MAP),
    "bornTimestamp": lambda columns: columns.timestamps("born_timestamp_ms"),
    "storeTimestamp": lambda columns: columns.timestamps("store_timestamp_ms"),
    "bornHost": lambda columns: columns.hosts("born_host", SysFlag.BORN_HOST_V6),
    "storeHost": lambda columns: columns.hosts("store_host", SysFlag.STORE_HOST_V6),
}
INTEGERS: Final = {
    "queue": "queue_id",
    "queueOffset": "queue_offset",
    "reconsumeTimes": "reconsume_times",
    "sysFlag": "sys_flag",
    "flag": "flag",
    "logPosition": "log_position",
    "storeSize": "size_bytes",
    "bodyCrc": "body_crc",
    "preparedTransactionOffset": "prepared_transaction_offset",
}
COLUMN_TYPES: Final = {
    "queue": pa.int32(),
    "queueOffset": pa.int64(),
    "reconsumeTimes": pa.int32(),
    "sysFlag": pa.int32(),
    "flag": pa.int32(),
    "logPosition": pa.int64(),
    "storeSize": pa.int32(),
    "bodyCrc": pa.int32(),
    "preparedTransactionOffset": pa.int64(),
}
