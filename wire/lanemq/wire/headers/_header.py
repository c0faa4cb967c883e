"""Typed headers: values for the ext fields of requests and answers.

A header class declares its fields once; reading, checking and writing follow from that. A name
on the wire is the Java field's, ours is the same in snake case. A field without a default is
required, as in the reference; a field of ``None`` is absent.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Self, get_args

import msgspec

from .._errors import LocalProtocolError, RemoteProtocolError
from .._numbers import INT32, INT64, Long, read_number

_PLAIN_TRUTHS: Final = frozenset({None, "true", "false"})


class Header(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of all headers.

    Source: RocketMQ 4.9.8, CommandCustomHeader and RemotingCommand.decodeCommandCustomHeader.
    """

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Read a header; ext fields it does not declare are left alone.

        Raises ``RemoteProtocolError``, naming the field that is missing or is not a number of its
        size. (The reference goes on without such a field and fails later, or not at all.)
        """
        for name in _numbers(cls):
            text = fields.get(name)
            if text is not None and not text.isdecimal():  # msgspec would take 1e5 and 1.0, too
                return cls._from_unusual_fields(fields)
        for name in _truths(cls):
            if fields.get(name) not in _PLAIN_TRUTHS:  # msgspec would take 1 as true
                return cls._from_unusual_fields(fields)
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
    def names(cls, *attributes: str) -> tuple[str, ...]:
        """Return the names that fields have on the wire, for templates of hot answers.

        Raises ``KeyError`` for one that the header does not declare.
        """
        declared = _names(cls)
        return tuple(declared[attribute] for attribute in attributes)

    @classmethod
    def rewritten(cls, fields: Mapping[str, str], **values: int | str) -> dict[str, str]:
        """Return ext fields with some of the header's own replaced; all others stay, known or not.

        For requests that go on as they are but for these: a header that is read and written loses
        what it does not declare. Raises ``KeyError`` for one that the header does not declare.
        """
        names = cls.names(*values)
        return {**fields, **dict(zip(names, map(str, values.values()), strict=True))}

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
                try:
                    number = read_number(text, INT64 if _is_long(field.type) else INT32)
                except ValueError as error:
                    raise RemoteProtocolError(
                        f"{cls.__name__}: field {field.encode_name} is {error}"
                    ) from None
                values[field.encode_name] = number
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


@cache
def _names(header: type[Header]) -> dict[str, str]:
    return {field.name: field.encode_name for field in msgspec.structs.fields(header)}


def _kind(declared: Any) -> type:  # noqa: ANN401 - a field's annotation may be any form
    """Return ``bool``, ``int`` or ``str``: what an annotation comes down to."""
    while arguments := get_args(declared):
        declared = arguments[0]
    assert declared in (bool, int, str), declared
    return declared  # type: ignore[no-any-return] # one of those three


@cache
def _numbers(header: type[Header]) -> tuple[str, ...]:
    """Return the names of the fields that are numbers."""
    return tuple(
        field.encode_name for field in msgspec.structs.fields(header) if _kind(field.type) is int
    )


@cache
def _truths(header: type[Header]) -> tuple[str, ...]:
    """Return the names of the fields that are truth values."""
    return tuple(
        field.encode_name for field in msgspec.structs.fields(header) if _kind(field.type) is bool
    )


def _is_long(declared: Any) -> bool:  # noqa: ANN401 - as above
    return declared == Long or any(_is_long(part) for part in get_args(declared))
