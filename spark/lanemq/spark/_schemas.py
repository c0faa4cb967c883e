"""The columns of every table, and the part of them that a query asks for."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ._errors import OptionInvalid

MESSAGES: Final = {
    "topic": "string",
    "queue": "int",
    "queueOffset": "bigint",
    "logicalQueue": "int",
    "msgId": "string",
    "keys": "string",
    "tags": "string",
    "body": "binary",
    "properties": "map<string,string>",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "bornHost": "string",
    "storeHost": "string",
    "reconsumeTimes": "int",
    "sysFlag": "int",
    "flag": "int",
    "logPosition": "bigint",
    "storeSize": "int",
}
LOGICAL_QUEUE: Final = "logicalQueue"
MESSAGES_ON_DEMAND: Final = {
    "offsetMsgId": "string",
    "bodyCrc": "int",
    "preparedTransactionOffset": "bigint",
}
"""Columns that only a query which names them gets."""


def ddl(columns: Mapping[str, str]) -> str:
    """Return a schema in the form that Spark reads."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def chosen(
    source: str, wanted: list[str], columns: Mapping[str, str], on_demand: Mapping[str, str]
) -> dict[str, str]:
    """Return the columns that were asked for; all but those on demand where none were.

    Raises ``OptionInvalid`` for a name that is none of them.
    """
    if not wanted:
        return dict(columns)
    known = {**columns, **on_demand}
    for name in wanted:
        if name not in known:
            raise OptionInvalid(
                f"{source}: there is no column {name!r} in this table; its columns are"
                f" {', '.join(known)}"
            )
    return {name: known[name] for name in wanted}


def arrow_schema(source: str, schema: StructType, known: Mapping[str, str]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the Arrow schema of what a query reads, which may be a part of the columns.

    Raises ``OptionInvalid`` where a column is unknown or of another type.
    """
    wanted = chosen(source, schema.fieldNames(), known, {})
    for name, kind in wanted.items():
        given = schema[name].dataType.simpleString()
        if given != kind:
            raise OptionInvalid(f"{source}: column {name!r} is of type {kind}, not {given}")
    return to_arrow_schema(schema, timezone="UTC")
