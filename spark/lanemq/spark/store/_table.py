"""The tables of a store as the source takes them: columns, parts, batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from pyspark.sql.datasource import Filter, InputPartition

from .._options import Options


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The wishes of a query about a table."""

    roots: tuple[str, ...]
    """The directories, as paths or URIs."""
    options: Options
    schema: Any
    """The Arrow schema of the columns, in their order."""
    filters: Sequence[Filter] = field(default_factory=tuple)

    @property
    def names(self) -> list[str]:
        found: list[str] = self.schema.names
        return found

    def needs(self, name: str) -> bool:
        """Return whether a column is read, or filtered by."""
        return name in self.names or any(
            getattr(one, "attribute", None) == (name,) for one in self.filters
        )


class Table(Protocol):
    """A table. Its objects hold nothing, so that they go to any process."""

    @property
    def columns(self) -> dict[str, str]:
        """Name -> type, as Spark writes it."""
        ...

    @property
    def on_demand(self) -> dict[str, str]:
        """Columns that only a query which names them gets."""
        ...

    def parts(self, query: Query) -> list[InputPartition]:
        """Return what tasks are to read, each its own. Raises ``SourceError``."""
        ...

    def batches(self, query: Query, part: Any) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
        """Iterate over Arrow record batches with the columns of the query."""
        ...
