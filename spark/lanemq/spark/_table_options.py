"""Options of a table in a catalog: ``CREATE TABLE … USING rocketmq OPTIONS (…)``.

Spark 4 gives a Python source the options of a table once, when the table is created and its
schema is asked for; whoever reads or writes the table later gets a source without options. The
schema is kept, with the metadata of its columns: there the options are written, and read again.
The metadata goes wherever the rows go, into Parquet files for example, so secrets do not belong
there.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ._errors import OptionInvalid
from ._options import SPARKS_OWN, SPARKS_PREFIX
from ._schemas import ddl

KEY: Final = "lanemq.options"
PROVIDER: Final = "provider"
"""Given by Spark's catalogs alone, when a table is created."""
SECRETS: Final = frozenset({"secretkey", "securitytoken"})


KINDS: Final[dict[str, DataType]] = {
    kind.simpleString(): kind
    for kind in (
        BinaryType(),
        BooleanType(),
        IntegerType(),
        LongType(),
        MapType(StringType(), StringType()),
        StringType(),
        TimestampType(),
    )
}
"""The types of all columns by their names: the process that is asked for a schema has no JVM,
which could read them."""


def table_schema(
    source: str, columns: Mapping[str, str], given: Mapping[str, str]
) -> str | StructType:
    """Return the schema of columns, with the options in it if a table is being created.

    Raises ``OptionInvalid`` if a secret is among them.
    """
    folded = {name.lower(): value for name, value in given.items()}
    if PROVIDER not in folded:
        return ddl(columns)
    if secrets := SECRETS & folded.keys():
        raise OptionInvalid(
            f"{source}: a table of a catalog cannot hold the option {', '.join(sorted(secrets))}:"
            " it would be readable in files that are written from the table. Use CREATE TEMPORARY"
            " VIEW … USING …, which takes the same options and keeps them in its session"
        )
    own = {
        name: value
        for name, value in folded.items()
        if name not in SPARKS_OWN and not name.startswith(SPARKS_PREFIX)
    }
    kept = {KEY: json.dumps(own)}
    return StructType(
        [StructField(name, KINDS[kind], metadata=kept) for name, kind in columns.items()]
    )


def options_of(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options given; if there are none, those with which a table was created."""
    if given:
        return given
    for column in schema.fields:
        if kept := (column.metadata or {}).get(KEY):
            found: dict[str, str] = json.loads(kept)
            return found
    return given
