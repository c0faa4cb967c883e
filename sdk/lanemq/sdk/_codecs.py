"""Codecs: what turns an application's values into bodies of messages, and back."""

import functools
from collections.abc import Hashable
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, cast, final, is_typeddict, runtime_checkable

import msgspec

from ._errors import WrongValue


@runtime_checkable
class Codec(Protocol):
    """Turns values into bodies and back. Its methods do not wait; what they raise is shown."""

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - an application's own
        """Return the body for ``value``."""

    def decode(self, body: bytes) -> Any:  # noqa: ANN401 - an application's own
        """Return the value that ``body`` holds."""


CodecLike: TypeAlias = Codec | str | type | None
"""A `Codec`; the name of one, ``"bytes"``, ``"text"``, ``"json"`` or ``"msgpack"``; or a type of
values: ``bytes``, ``str``, a msgspec ``Struct``, a dataclass, a ``TypedDict`` or a pydantic model,
as JSON. None is ``bytes``."""


class DecodeErrors(Enum):
    """The fate of messages whose body the codec of a push consumer cannot decode."""

    DEAD_LETTER = "dead letter"
    """They go to the dead letters at once; the listener does not get them."""
    RETRY = "retry"
    """They come again as if the listener had failed: for codecs whose errors may pass."""
    RAISE = "raise"
    """The listener gets them; ``message.value`` raises ``DecodingFailed``."""


@final
@dataclass(frozen=True, slots=True)
class BytesCodec:
    """Bodies as they are."""

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - checked here
        """Return ``value``."""
        if not isinstance(value, bytes):
            raise TypeError(f"body must be bytes, not {type(value).__name__}")
        return value

    def decode(self, body: bytes) -> bytes:
        """Return ``body``."""
        return body


@final
@dataclass(frozen=True, slots=True)
class TextCodec:
    """Texts, in UTF-8 unless told otherwise."""

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError) as error:
            raise WrongValue(f"TextCodec.encoding: {error}") from None

    def encode(self, value: str) -> bytes:
        """Return the text's bytes."""
        if not isinstance(value, str):
            raise TypeError(f"body must be a text, not {type(value).__name__}")
        return value.encode(self.encoding)

    def decode(self, body: bytes) -> str:
        """Return the text."""
        return body.decode(self.encoding)


@final
@dataclass(frozen=True, slots=True)
class JsonCodec:
    """JSON by msgspec; a ``type`` checks what is decoded, and makes objects of it."""

    type: Any = Any
    _decoder: msgspec.json.Decoder[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.type))

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - whatever msgspec knows
        """Return the value's JSON text."""
        return msgspec.json.encode(value)

    def decode(self, body: bytes) -> Any:  # noqa: ANN401 - of ``type``
        """Return the value."""
        return self._decoder.decode(body)


@final
@dataclass(frozen=True, slots=True)
class MsgpackCodec:
    """MessagePack by msgspec; a ``type`` checks what is decoded, and makes objects of it."""

    type: Any = Any
    _decoder: msgspec.msgpack.Decoder[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.msgpack.Decoder(self.type))

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - whatever msgspec knows
        """Return the value in MessagePack."""
        return msgspec.msgpack.encode(value)

    def decode(self, body: bytes) -> Any:  # noqa: ANN401 - of ``type``
        """Return the value."""
        return self._decoder.decode(body)


class _Model(Protocol):
    """A pydantic model, as far as it is needed here; pydantic itself is not imported."""

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, data: bytes) -> Any: ...  # noqa: ANN401 - one of its kind


@final
@dataclass(frozen=True, slots=True)
class _PydanticCodec:
    model: type[_Model]

    def encode(self, value: _Model) -> bytes:
        if not isinstance(value, self.model):
            raise TypeError(f"body must be a {self.model.__name__}, not {type(value).__name__}")
        return value.model_dump_json().encode()

    def decode(self, body: bytes) -> object:
        return self.model.model_validate_json(body)


NAMED: Final[dict[str, Codec]] = {
    "bytes": BytesCodec(),
    "text": TextCodec(),
    "json": JsonCodec(),
    "msgpack": MsgpackCodec(),
}
TYPED: Final[dict[object, Codec]] = {bytes: BytesCodec(), str: TextCodec()}


def as_codec(given: CodecLike) -> Codec | None:
    """Return the codec that is meant; None for none. Raises ``WrongValue``."""
    if given is None:
        return None
    if isinstance(given, Hashable):
        return _as_codec(given)
    if isinstance(given, type) or not isinstance(given, Codec):
        raise _wrong(given)
    return given


@functools.lru_cache(maxsize=256)
def _as_codec(given: Hashable) -> Codec:
    if isinstance(given, str):
        if given in NAMED:
            return NAMED[given]
        raise WrongValue(f"codec must be one of {', '.join(NAMED)}, not {given!r}")
    if given in TYPED:
        return TYPED[given]
    if not isinstance(given, type):
        if isinstance(given, Codec):
            return given
        raise _wrong(given)
    if hasattr(given, "model_validate_json") and hasattr(given, "model_dump_json"):
        return _PydanticCodec(cast("type[_Model]", given))
    if issubclass(given, msgspec.Struct) or is_dataclass(given) or is_typeddict(given):
        try:
            return JsonCodec(given)
        except TypeError as error:  # a field of a type that msgspec does not know
            raise WrongValue(f"codec: {given.__name__} cannot be JSON: {error}") from None
    if isinstance(given, Codec):
        raise WrongValue(f"codec must be an object, {given.__name__}(), not the class")
    raise _wrong(given)


def _wrong(given: object) -> WrongValue:
    return WrongValue(
        f"codec must be a name ({', '.join(NAMED)}), a type that can be JSON, or an object with"
        f" encode(value) and decode(body), not {given!r}"
    )
