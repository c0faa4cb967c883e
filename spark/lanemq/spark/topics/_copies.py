"""Messages of an archive as they are sent again, and compared with those that have been sent."""

from typing import Any, Final

from lanemq.sdk import Message

from ..records import RecordColumns
from ._own_properties import own_properties

REPLAYED: Final = "REPLAYED"
COLUMNS: Final = ("queue", "queueOffset", "body", "keys", "tags", "properties", "flag")


def copy_of(row: Any, topic: str, mark: str) -> Message:  # noqa: ANN401 - a row of Spark
    """Return the message to send for a row of ``COLUMNS``, with ``mark`` and its old offset."""
    properties = own_properties(dict(row["properties"] or ()))
    properties[REPLAYED] = f"{mark}{row['queueOffset']}"
    return Message(
        topic=topic,
        body=bytes(row["body"]),
        tags=row["tags"] or "",
        keys=tuple((row["keys"] or "").split()),
        properties=properties,
        flag=row["flag"] or 0,
    )


def row_of(columns: RecordColumns, number: int, old_offset: int) -> dict[str, Any]:
    """Return a record that was sent, as the row that it was sent for."""
    one = RecordColumns(columns.records.take([number]))
    found = {name: one.column(name)[0].as_py() for name in COLUMNS}
    return {**found, "queueOffset": old_offset}


def is_copy(sent: dict[str, Any], row: Any) -> bool:  # noqa: ANN401 - a row of Spark
    """Return whether what ``row_of`` found was sent for a row; not if a body is damaged."""
    if row["queueOffset"] != sent["queueOffset"] or None in (row["body"], sent["body"]):
        return False
    wanted, found = copy_of(row, "", ""), copy_of(sent, "", "")
    # A broker may have added properties that this version does not know as brokers' own.
    known = {name: found.properties.get(name) for name in wanted.properties}
    whole = (wanted.body, wanted.tags, wanted.keys, wanted.flag, wanted.properties)
    return whole == (found.body, found.tags, found.keys, found.flag, known)
