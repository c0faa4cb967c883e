"""JSON in fastjson's dialect: ``loads`` and ``dumps``, and parts of what ``dumps`` writes."""

from ._bounds import Shape, check_numbers, check_request_numbers
from ._reader import MAX_DEPTH, is_quick, loads, most_values
from ._writer import (
    Written,
    WrittenObject,
    WrittenParts,
    dump_member,
    dump_named,
    dump_parts,
    dumps,
)

__all__ = [
    "MAX_DEPTH",
    "Shape",
    "Written",
    "WrittenObject",
    "WrittenParts",
    "check_numbers",
    "check_request_numbers",
    "dump_member",
    "dump_named",
    "dump_parts",
    "dumps",
    "is_quick",
    "loads",
    "most_values",
]
