"""Fast packers derived from declarations.

A binary layout is declared once, with ``construct``; that declaration is the specification and
the slow, fully checked path. The hot path needs ``struct.Struct``, and gets it here from the
same declaration, so that there is no second copy to keep in step.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Any, final

import construct as cs


@final
@dataclass(frozen=True, slots=True)
class FixedLayout:
    """The fixed-size fields of a declaration, in order.

    ``names`` are the field names and ``struct`` packs and unpacks their values in that order.
    Nested declarations are flattened.
    """

    names: tuple[str, ...]
    struct: Struct

    @property
    def size_bytes(self) -> int:
        return self.struct.size


class _VariableSizeError(Exception):
    """Ends the walk: a field whose size depends on what was read before."""


def _formats(name: str, field: "cs.Construct[Any, Any]") -> list[tuple[str, str]]:
    while isinstance(field, cs.Renamed):
        name, field = field.name or name, field.subcon
    if isinstance(field, cs.FormatField):
        byte_order, code = field.fmtstr[0], field.fmtstr[1:]
        if byte_order != ">":
            raise ValueError(f"field {name!r} is not big-endian")
        return [(name, code)]
    if isinstance(field, cs.Bytes) and isinstance(field.length, int):
        return [(name, f"{field.length}s")]
    if isinstance(field, cs.Struct):
        return [pair for inner in field.subcons for pair in _formats("", inner)]
    raise _VariableSizeError(name)


def _layout(pairs: list[tuple[str, str]]) -> FixedLayout:
    return FixedLayout(
        names=tuple(name for name, _ in pairs),
        struct=Struct(">" + "".join(code for _, code in pairs)),
    )


def fixed_prefix(declaration: cs.Struct) -> FixedLayout:
    """Return the leading fields of ``declaration``, up to the first whose size is unknown.

    Raises ``ValueError`` where a field is not big-endian, as everything in RocketMQ is.
    """
    pairs: list[tuple[str, str]] = []
    try:
        for field in declaration.subcons:
            pairs += _formats("", field)
    except _VariableSizeError:
        pass
    return _layout(pairs)


def fixed_struct(declaration: cs.Struct) -> FixedLayout:
    """Return the fields of ``declaration``, all of which must have a known size.

    Raises ``ValueError`` naming the first field that has not.
    """
    try:
        return _layout(_formats("", declaration))
    except _VariableSizeError as error:
        raise ValueError(f"field {error} has no fixed size") from None
