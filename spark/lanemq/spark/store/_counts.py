"""The messages of a store counted by topic, in pieces.

A piece goes to a task as it is: the tables of the source take three kinds of Python workers, each
of which starts for seconds, and pieces of work take one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import pyarrow as pa
from pyspark.sql.datasource import In

from .._options import Options
from ._files import matching
from ._messages import MessagesTable
from ._source import NAME, OPTIONS
from ._table import Query

TOPIC: Final = "topic"


@final
@dataclass(frozen=True, slots=True)
class TopicCount:
    """The messages of one part of a log, by topic."""

    query: Query
    part: Any

    def __call__(self) -> Counter[str]:
        """Walk over the part, and return the numbers of its records."""
        found: Counter[str] = Counter()
        for batch in MessagesTable().batches(self.query, self.part):
            for one in batch.column(TOPIC).value_counts():
                found[one["values"].as_py()] += one["counts"].as_py()
        return found


def topic_counts(store: str, topics: Sequence[str] = ()) -> list[TopicCount]:
    """Return the work of counting the records of a store's log, of some topics or of all.

    As the table ``messages`` has them in the mode PERMISSIVE. Raises ``SourceError``.
    """
    query = Query(
        roots=tuple(matching(store)),
        options=Options(NAME, OPTIONS, {"path": store}),
        schema=pa.schema([(TOPIC, pa.string())]),
        filters=(In((TOPIC,), tuple(topics)),) if topics else (),
    )
    return [TopicCount(query, part) for part in MessagesTable().parts(query)]
