"""Write JSON the way fastjson writes it: what old clients and the store's files expect.

Source: fastjson 1.2.x as used by RocketMQ 4.9.8 (RemotingSerializable, ConfigManager).
"""

from typing import Protocol, runtime_checkable

import msgspec

from ._errors import LocalProtocolError


@runtime_checkable
class ToJson(Protocol):
    """A value that knows its JSON form; as a key of a dict it becomes an object key."""

    def to_json(self) -> dict[str, object]: ...


def dumps(value: object, *, standard: bool = False, pretty: bool = False) -> bytes:
    """Write ``value`` (dict, list, tuple, str, int, float, bool, None, or with ``to_json``).

    Members that are ``None`` are left out. A key that is an ``int`` stands bare, and one with
    ``to_json`` as an object: old clients need exactly that. ``standard`` puts both in quotes,
    for readers of strict JSON. ``pretty`` is the layout of the configuration files: one member
    a line, indented by tabs, but arrays and members with bare keys on one line. A ``$ref`` is never
    written. Raises ``LocalProtocolError`` for a value that has no JSON form.
    """
    out: list[bytes] = []
    try:
        _Writer(out, standard=standard, pretty=pretty).write(value, b"\n")
    except (RecursionError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"no JSON form: {error}") from error
    return b"".join(out)


class _Writer:
    def __init__(self, out: list[bytes], *, standard: bool, pretty: bool) -> None:
        self._put = out.append
        self._standard = standard
        self._pretty = pretty

    def write(self, value: object, line: bytes) -> None:
        """Write ``value``; ``line`` is the line break with the indent of where it stands."""
        if value is None or isinstance(value, str | int | float):
            self._put(_scalar(value))
        elif isinstance(value, dict):
            self._object(value, line)
        elif isinstance(value, list | tuple):
            self._array(value, line)
        elif isinstance(value, ToJson):
            self._object(value.to_json(), line)
        else:
            raise LocalProtocolError(f"no JSON form for {type(value).__name__}")

    def _object(self, members: dict[object, object] | dict[str, object], line: bytes) -> None:
        put, pretty = self._put, self._pretty
        inner = line + b"\t" if pretty else line
        put(b"{")
        first = True
        for key, value in members.items():
            if value is None:
                continue
            if not first:
                put(b",")
            first = False
            if isinstance(key, str):
                if pretty:
                    put(inner)
                put(_ENCODER.encode(key))
            else:
                put(self._other_key(key))
            put(b":")
            self.write(value, inner)
        if pretty and not first:
            put(line)
        put(b"}")

    def _other_key(self, key: object) -> bytes:
        if isinstance(key, int) and not isinstance(key, bool):
            text = b"%d" % key
        elif isinstance(key, ToJson):
            text = dumps(key.to_json(), standard=self._standard)
        else:
            raise LocalProtocolError(f"no JSON key for {type(key).__name__}")
        return _ENCODER.encode(text.decode()) if self._standard else text

    def _array(self, values: list[object] | tuple[object, ...], line: bytes) -> None:
        put = self._put
        put(b"[")
        for index, value in enumerate(values):
            if index:
                put(b",")
            self.write(value, line)
        put(b"]")


def _scalar(value: str | int | float | None) -> bytes:
    if isinstance(value, int) and not isinstance(value, bool):
        return b"%d" % value  # an IntEnum is its number
    return _ENCODER.encode(value)


_ENCODER = msgspec.json.Encoder()
