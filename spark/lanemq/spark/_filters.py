"""Filters that Spark pushes down, applied to columns before the others are made.

Spark applies every filter once more, so that what is left out here is never wrong, only late.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

Column = Callable[[str], Any]
"""Name -> Arrow array."""
COSTLY: Final = frozenset({"body", "properties"})
"""Columns that are made only for rows that are wanted."""
COMPARISONS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    EqualTo: pc.equal,
    EqualNullSafe: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}


def usable(filters: Iterable[Filter], columns: Iterable[str]) -> list[Filter]:
    """Return the filters that can be applied here."""
    known = set(columns) - COSTLY
    return [one for one in filters if _is_known(one) and one.attribute[0] in known]  # type: ignore[attr-defined] # filters have members of their own


def _is_known(one: Filter) -> bool:
    if isinstance(one, In | IsNotNull | StringStartsWith):
        return len(one.attribute) == 1
    return type(one) in COMPARISONS and len(one.attribute) == 1 and one.value is not None  # type: ignore[attr-defined] # filters have members of their own


def wanted_rows(filters: Iterable[Filter], column: Column) -> Any | None:  # noqa: ANN401 - pyarrow has no types
    """Return a mask of the rows that pass all filters; None where there are none."""
    mask = None
    for one in filters:
        passed = pc.fill_null(_passed(one, column(one.attribute[0])), False)  # type: ignore[attr-defined] # filters have members of their own
        mask = passed if mask is None else pc.and_(mask, passed)
    return mask


def _passed(one: Filter, values: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    if isinstance(one, IsNotNull):
        return pc.is_valid(values)
    if isinstance(one, In):
        known = [value for value in one.value if value is not None]
        return pc.is_in(values, value_set=pa.array(known, values.type))
    if isinstance(one, StringStartsWith):
        return pc.starts_with(values, one.value)
    compare = COMPARISONS[type(one)]
    return compare(values, pa.scalar(one.value, values.type))  # type: ignore[attr-defined] # filters have members of their own


def values_of(filters: Iterable[Filter], name: str) -> set[Any] | None:
    """Return the values that a column may have; None where the filters do not say."""
    found: set[Any] | None = None
    for one in filters:
        if isinstance(one, EqualTo | In) and one.attribute == (name,):
            values = set(one.value) if isinstance(one, In) else {one.value}
            found = values if found is None else found & values
    return found


def filtered(filters: Iterable[Filter], arrays: Mapping[str, Any], schema: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the columns of ``schema`` as a record batch, with the rows that pass."""
    mask = wanted_rows(usable(filters, arrays), arrays.__getitem__)
    batch = pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
    return batch if mask is None else batch.filter(mask)
