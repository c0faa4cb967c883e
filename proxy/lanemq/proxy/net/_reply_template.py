"""Success replies of the hot paths, formatted instead of encoded.

Most of a reply's header never changes. A template keeps the constant part as bytes and puts
the few changing values in, several times faster than building and encoding a ``Frame``.
"""

import json
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import final

from lanemq.wire import VERSION
from lanemq.wire.frame import FLAG_RESPONSE, Frame, SerializeType, encode_frame

_JSON = SerializeType.JSON
_HEAD = Struct(">II").pack  # the lengths of frame and header


@final
class ReplyTemplate:
    """A template of replies with response code ``code`` and the ext fields ``names``, then
    ``constants``.

    The changing values must be numbers or plain ASCII without quotes and backslashes: they go
    into the JSON text as they are.
    """

    __slots__ = ("_code", "_constants", "_names", "_text")

    def __init__(
        self,
        names: Sequence[str] = (),
        *,
        constants: Mapping[str, str] | None = None,
        code: int = 0,
    ) -> None:
        self._names = tuple(names)
        self._constants = dict(constants or {})
        self._code = code
        quoted = [f'{json.dumps(name)}:"%s"' for name in self._names]
        quoted += [
            f"{json.dumps(name)}:{json.dumps(value)}".replace("%", "%%")
            for name, value in self._constants.items()
        ]
        # Also where there are none: as of frames, some clients use them without asking.
        self._text = (
            f'{{"code":{code},"flag":{FLAG_RESPONSE},"language":"PYTHON","opaque":%d,'
            f'"version":{VERSION},"extFields":{{{",".join(quoted)}}}}}'
        )

    def encode(self, request: Frame, values: tuple[object, ...] = (), body: bytes = b"") -> bytes:
        """Encode the reply to ``request``; ``values`` go with the template's names, in order."""
        if request.serialize is not _JSON:
            fields = dict(zip(self._names, map(str, values), strict=True)) | self._constants
            return encode_frame(request.reply(self._code, fields, body))
        header = (self._text % (request.opaque, *values)).encode()
        size = len(header)
        # Serialize type 0 (JSON) is the top byte of the header's length word.
        if not body:
            return _HEAD(4 + size, size) + header
        return b"".join((_HEAD(4 + size + len(body), size), header, body))
