"""The columns that a query reads and those that it uses, from Spark's plan of it.

Spark does not tell sources in Python which columns a query uses (its PythonScanBuilder has no
SupportsPushDownRequiredColumns), so they make all that their options name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from ._errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCES: Final = ("rocketmq-store", "rocketmq")
UNIONS: Final = "Union"
"""The operator whose children have columns of their own, in the order of its columns."""
USING_ALL: Final = frozenset({"Distinct", "Except", "Intersect"})
"""Operators of plans that are not optimized which use every column without a reference to it."""


@final
@dataclass(frozen=True, slots=True)
class ScanColumns:
    """A source in a query, and its columns; as a text, what is read and the option for less."""

    source: str
    read: tuple[str, ...]
    """The columns that the source makes."""
    used: tuple[str, ...]
    """Those of them that the query uses, in the order of ``read``; none if it counts rows."""

    @property
    def columns(self) -> str:
        """The value of the option ``columns`` that makes no others."""
        return ",".join(self.used or self.read[:1])

    def __str__(self) -> str:
        """Return one line for people."""
        if len(self.used) == len(self.read):
            return f"{self.source}: the query uses all {len(self.read)} columns that are read"
        return (
            f"{self.source}: reads {len(self.read)} columns, and the query uses"
            f" {', '.join(self.used) or 'none'}: .option('columns', '{self.columns}') reads"
            f" {'these alone' if self.used else 'one'}"
        )


def scan_columns(frame: "DataFrame") -> list[ScanColumns]:
    """Return the columns of every scan of the sources in the query of a table.

    A scan for each place where the query has a source; none for what Spark has in its cache.
    Raises ``SourceError`` in a session of Spark Connect, which shows no plans.
    """
    java = getattr(frame, "_jdf", None)
    if java is None:
        raise SourceError("a session of Spark Connect has no plans that could be looked at")
    execution = java.queryExecution()
    # A stream is optimized batch by batch.
    plan = execution.analyzed() if frame.isStreaming else execution.optimizedPlan()
    found = []
    for leaf, wanted in _leaves(plan, set(_ids(plan.output()))):
        source = _source(leaf)
        if source is None:
            continue
        read = [(one.exprId().id(), one.name()) for one in _each(leaf.output())]
        used = tuple(name for number, name in read if number in wanted)
        found.append(ScanColumns(source, tuple(name for _, name in read), used))
    return found


def _leaves(node: Any, wanted: set[int]) -> Iterator[tuple[Any, set[int]]]:  # noqa: ANN401 - a plan
    """Yield the leaves below an operator, with the ids of the columns that are used of each."""
    for inner in _each(node.subqueries()):
        yield from _leaves(inner, set(_ids(inner.output())))
    children = list(_each(node.children()))
    if not children:
        yield node, wanted
        return
    kind = node.getClass().getSimpleName()
    referred = set(_ids(node.references().toSeq()))
    places = [number in wanted for number in _ids(node.output())] if kind == UNIONS else []
    for child in children:
        there = _ids(child.output())
        if kind in USING_ALL:
            below = set(there)
        elif kind == UNIONS:
            below = {number for number, is_used in zip(there, places, strict=True) if is_used}
        else:
            below = {number for number in there if number in wanted or number in referred}
        yield from _leaves(child, below)


def _source(leaf: Any) -> str | None:  # noqa: ANN401 - a plan
    """Return the name of the source that a leaf scans; None for another one."""
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelationV2":
        name = leaf.sourceName()
    elif kind == "DataSourceV2ScanRelation":
        name = leaf.relation().table().name()
    else:
        return None
    return name if name in SOURCES else None


def _ids(attributes: Any) -> list[int]:  # noqa: ANN401 - a Seq of Scala
    return [one.exprId().id() for one in _each(attributes)]


def _each(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 - a Seq of Scala
    there = sequence.iterator()
    while there.hasNext():
        yield there.next()
