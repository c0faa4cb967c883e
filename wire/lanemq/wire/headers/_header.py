"""Typed headers: what a request or an answer says in its ext fields.

A header class declares its fields once; reading, checking and writing follow from that. A name
on the wire is the Java field's, ours is the same in snake case. A field without a default is
required, as in the reference; a field of ``None`` is absent.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Self, get_args

import msgspec

from .._errors import LocalProtocolError, RemoteProtocolError

Int = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""A Java int."""

Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A Java long."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,40}")


class Header(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of all headers.

    Source: RocketMQ 4.9.8, CommandCustomHeader and RemotingCommand.decodeCommandCustomHeader.
    """

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Read a header; ext fields it does not declare are left alone.

        Raises ``RemoteProtocolError``, naming the field that is missing or is no number of its
        size. (The reference goes on without such a field and fails later, or not at all.)
        """
        try:
            return msgspec.convert(fields, cls, strict=False)
        except msgspec.ValidationError:
            return cls._from_unusual_fields(fields)

    def to_fields(self) -> dict[str, str]:
        """Return the ext fields: numbers in decimal, ``true`` or ``false``, ``None`` left out.

        Raises ``LocalProtocolError`` where a required field was given as ``None``.
        """
        fields: dict[str, str] = {}
        for name, attribute, required in _plan(type(self)):
            value = getattr(self, attribute)
            if value is None:
                if required:
                    raise LocalProtocolError(f"{type(self).__name__}: {attribute} is None")
            elif value is True:
                fields[name] = "true"
            elif value is False:
                fields[name] = "false"
            else:
                fields[name] = value if type(value) is str else str(value)
        return fields

    @classmethod
    def _from_unusual_fields(cls, fields: Mapping[str, str]) -> Self:
        """Read the number and truth texts that only Java takes, or say what is wrong."""
        values: dict[str, object] = {}
        for field in msgspec.structs.fields(cls):
            text = fields.get(field.encode_name)
            if text is None:
                if field.required:
                    raise RemoteProtocolError(
                        f"{cls.__name__}: required field {field.encode_name} is missing"
                    )
                continue
            kind = _kind(field.type)
            if kind is bool:
                values[field.encode_name] = text.lower() == "true"
            elif kind is int:
                if _DECIMAL.fullmatch(text) is None:
                    raise RemoteProtocolError(
                        f"{cls.__name__}: field {field.encode_name} is {text[:40]!r}, no integer"
                    )
                values[field.encode_name] = int(text)
            else:
                values[field.encode_name] = text
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"{cls.__name__}: {error}") from error


@cache
def _plan(header: type[Header]) -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (field.encode_name, field.name, field.required) for field in msgspec.structs.fields(header)
    )


def _kind(declared: Any) -> type:  # noqa: ANN401 - a field's annotation may be any form
    """Return ``bool``, ``int`` or ``str``: what an annotation comes down to."""
    while arguments := get_args(declared):
        declared = arguments[0]
    assert declared in (bool, int, str), declared
    return declared  # type: ignore[no-any-return]
