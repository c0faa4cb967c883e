"""The columns of every table, and the part of them that a query asks for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, final

from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

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
    folded = {name.lower(): name for name in known}
    found: dict[str, str] = {}
    for name in wanted:
        column = folded.get(name.lower())
        if column is None:
            raise OptionInvalid(
                f"{source}: there is no column {name!r} in this table; its columns are"
                f" {', '.join(known)}"
            )
        found[column] = known[column]
    return found


@final
@dataclass(frozen=True)
class Selection:
    """The columns that a query reads.

    Spark's names of columns ignore case: a query may write them in its own way, and gets them
    back as it wrote them.
    """

    schema: Any
    """The Arrow schema of the columns, with the names of the table."""
    given: tuple[str, ...]
    """The names as the query writes them, in the same order."""

    @staticmethod
    def of(source: str, schema: StructType, known: Mapping[str, str]) -> "Selection":
        """Return the columns of a schema, which may be a part of the table's.

        Raises ``OptionInvalid`` if a column is unknown or of another type.
        """
        names = schema.fieldNames()
        wanted = chosen(source, names, known, {})
        fields = []
        for field, (name, kind) in zip(schema.fields, wanted.items(), strict=True):
            given = field.dataType.simpleString()
            if given != kind:
                raise OptionInvalid(f"{source}: column {name!r} is of type {kind}, not {given}")
            fields.append(StructField(name, field.dataType, field.nullable))
        return Selection(to_arrow_schema(StructType(fields), timezone="UTC"), tuple(names))

    def named(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Give batches of ``schema`` the names that the query writes."""
        for batch in batches:
            is_same = self.schema.names == list(self.given)
            yield batch if is_same else batch.rename_columns(list(self.given))

    def filters(self, filters: Iterable[Filter]) -> tuple[Filter, ...]:
        """Return filters with the names of the table."""
        names = {
            given.lower(): name for given, name in zip(self.given, self.schema.names, strict=True)
        }
        return tuple(self._renamed(one, names) for one in filters)

    def _renamed(self, one: Filter, names: Mapping[str, str]) -> Filter:
        attribute = getattr(one, "attribute", None)
        if attribute is None or len(attribute) != 1:
            return one
        return replace(one, attribute=(names.get(attribute[0].lower(), attribute[0]),))  # type: ignore[call-arg] # filters have members of their own
