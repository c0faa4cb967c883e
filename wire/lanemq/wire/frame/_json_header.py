"""The JSON header of a remoting frame (serialize type 0).

Two paths read it. What all clients but one send is read by one strict decoder; what that
refuses is read again, member by member, by wider rules. Unlike bodies, headers are strict JSON.
Source: RocketMQ 4.9.8, RemotingCommand, RemotingSerializable.
"""

from collections.abc import Sized
from typing import Annotated, Final, final

import msgspec

from .._codes import LanguageCode
from .._errors import LocalProtocolError, RemoteProtocolError
from ..fastjson import check_numbers
from ._command import MAX_FIELDS, Frame, SerializeType

INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
LANGUAGE_CHARACTERS_MAX: Final = 32
"""Longest name of a language that is read; the names of ``LanguageCode`` are shorter."""

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]


@final
class JsonHeader(
    msgspec.Struct,
    gc=False,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"fields": "extFields", "serialize_type": "serializeTypeCurrentRPC"},
):
    """The layout: members as the protocol names them."""

    code: Int32
    language: Annotated[str, msgspec.Meta(max_length=LANGUAGE_CHARACTERS_MAX)]
    version: Int32
    opaque: Int32
    flag: Int32
    fields: dict[str, str] | None = None
    remark: str | None = None
    serialize_type: str | None = None  # an echo of the type byte; Java writes it, nobody reads it


_LONG_BYTES: Final = 256 << 10
_LONG_NAMES_MAX: Final = 1 << 14
"""A header of more bytes is read only if it has no more names; so long takes reading the names."""

_WIDE_BYTES: Final = 256 << 10
"""A header that the strict decoder refuses is read up to this length: no request has a longer one,
and long answers come from servers that write strict headers."""
_UNREAD_BYTES: Final = 4 << 10
"""Bytes of all members of a header that nobody knows; no client has more than one short one."""

_NAMES: Final = frozenset(field.encode_name for field in msgspec.structs.fields(JsonHeader))
_DECODER = msgspec.json.Decoder(JsonHeader)
_MEMBERS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY_DECODER: msgspec.json.Decoder[object] = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_JSON: Final = SerializeType.JSON


def encode_json_header(frame: Frame) -> bytes:
    """Write the header of ``frame``, ``extFields`` included even when it is empty.

    Some clients use the ext fields of an answer without asking whether there are any. Values
    leave as JSON strings, for others fail at a number. Raises ``LocalProtocolError``.
    """
    try:
        "".join(frame.fields.values())  # the cheapest way to learn that all of them are text
        header = _ENCODER.encode(
            JsonHeader(
                frame.code,
                frame.language,
                frame.version,
                frame.opaque,
                frame.flag,
                frame.fields,
                frame.remark,
            )
        )
        if frame.extra:
            header = header[:-1] + b"," + _ENCODER.encode(frame.extra)[1:]
    except (TypeError, UnicodeEncodeError, RecursionError) as error:
        raise LocalProtocolError(f"no JSON header for code {frame.code}: {error}") from error
    return header


def decode_json_header(header: bytes, body: bytes) -> Frame:
    """Read ``header``; ``code`` must be there, all else may be missing.

    A language with a longer name than any is OTHER: connections remember theirs.
    Raises ``RemoteProtocolError``, naming the member or the byte.
    """
    if len(header) > _LONG_BYTES and (names := header.count(b'":')) > _LONG_NAMES_MAX:
        raise RemoteProtocolError(f"JSON header: up to {names} members, {MAX_FIELDS} are read")
    try:
        members = _DECODER.decode(header)
    except (ValueError, RecursionError):
        return _decode_widely(header, body)
    echo = members.serialize_type
    if members.fields is not None and len(members.fields) > MAX_FIELDS:
        _check_number(members.fields)
    return Frame(
        members.code,
        members.opaque,
        members.flag,
        members.fields or {},
        body,
        members.remark,
        members.language,
        members.version,
        _JSON,
        {} if echo is None else {"serializeTypeCurrentRPC": echo},
    )


def _decode_widely(header: bytes, body: bytes) -> Frame:
    # The strict decoder stops at the first number that is none of the 32-bit members; here all are
    # read, those of members that nobody knows, too.
    if len(header) > _WIDE_BYTES:
        raise RemoteProtocolError(
            f"JSON header: {len(header)} bytes that are not as clients write them, "
            f"at most {_WIDE_BYTES} of that are read"
        )
    check_numbers(header)
    try:
        members = _MEMBERS_DECODER.decode(header)
        _check_number(members)
        extra = _extra(members)
        remark, language = _text(members.get("remark")), _text(members.get("language"))
        fields = _fields(members.get("extFields"))
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"JSON header: not UTF-8: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"JSON header: {error}") from error
    if "code" not in members:
        raise RemoteProtocolError("JSON header: no member 'code'")
    return Frame(
        code=_int32(members, "code"),
        opaque=_int32(members, "opaque"),
        flag=_int32(members, "flag"),
        fields=fields,
        body=body,
        remark=remark,
        language=_language(language),
        version=_int32(members, "version"),
        extra=extra,
    )


def _language(name: str | None) -> str:
    if name is None or len(name) > LANGUAGE_CHARACTERS_MAX:
        return LanguageCode.OTHER.name
    return name


def _extra(members: dict[str, msgspec.Raw]) -> dict[str, object]:
    """Read the members that nobody knows."""
    unread = {
        name: value
        for name, value in members.items()
        if name not in _NAMES or name == "serializeTypeCurrentRPC"
    }
    size_bytes = sum(len(bytes(value)) for value in unread.values())
    if size_bytes > _UNREAD_BYTES:
        raise RemoteProtocolError(
            f"JSON header: {size_bytes} bytes of unknown members, at most {_UNREAD_BYTES} are read"
        )
    return {name: _ANY_DECODER.decode(value) for name, value in unread.items()}


def _fields(member: msgspec.Raw | None) -> dict[str, str]:
    if member is None or bytes(member) == b"null":
        return {}
    written = _MEMBERS_DECODER.decode(member)
    _check_number(written)
    texts = {name: _text(value) for name, value in written.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _check_number(members: Sized) -> None:
    if len(members) > MAX_FIELDS:
        raise RemoteProtocolError(
            f"JSON header: {len(members)} members, at most {MAX_FIELDS} are read"
        )


def _text(member: msgspec.Raw | None) -> str | None:
    """Return the text form: a string's characters, anything else as it was written.

    A signature covers this form, so a number keeps the very digits its sender chose.
    """
    if member is None:
        return None
    written = bytes(member)
    if written.startswith(b'"'):
        value = _ANY_DECODER.decode(written)
        assert isinstance(value, str)
        return value
    return None if written == b"null" else written.decode()


def _int32(members: dict[str, msgspec.Raw], name: str) -> int:
    text = _text(members.get(name))
    if text is None:
        return 0
    try:
        value = int(text)
    except ValueError:
        raise RemoteProtocolError(f"JSON header: {name} is {text[:40]!r}, no integer") from None
    if not INT32_MIN <= value <= INT32_MAX:
        raise RemoteProtocolError(f"JSON header: {name} is {value}, beyond 32 bits")
    return value
