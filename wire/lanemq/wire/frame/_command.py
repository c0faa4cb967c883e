"""One remoting command: a request or an answer, in either direction."""

from collections.abc import Mapping
from enum import IntEnum
from sys import getsizeof
from typing import Final, final

import msgspec

from .._codes import LanguageCode
from .._versions import VERSION

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2

LANGUAGE: Final = LanguageCode.PYTHON.name
"""The language in our frames; one of the nine names that every client knows."""
JAVA: Final = LanguageCode.JAVA.name
"""The language in the frames of Apache's own clients, brokers and tools."""


MAX_FIELDS: Final = 256
"""Most ext fields of a header that we read; requests have some dozens at most."""
_ORDINARY_BYTES: Final = 2048
"""Memory of the objects of some 15 ext fields."""


@final
class SerializeType(IntEnum):
    """The encoding of a frame's header."""

    JSON = 0
    ROCKETMQ = 1  # binary


@final
class Frame(msgspec.Struct, frozen=True, gc=False):
    """One remoting command, as it was read or as it is to be written.

    ``fields`` are the ext fields, all of them, in text form, known or not. ``opaque`` is the
    request's number (int32), which its answer repeats. ``extra`` holds the members of a JSON
    header that are not among the others here, so that they survive being passed on.

    Source: RocketMQ 4.9.8, RemotingCommand.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    fields: dict[str, str] = {}
    body: bytes = b""
    remark: str | None = None
    language: str = LANGUAGE
    version: int = VERSION
    serialize: SerializeType = SerializeType.JSON
    extra: dict[str, object] = {}

    @property
    def kept_bytes(self) -> int:
        """The memory in bytes that body and ext fields take while the frame is kept.

        Objects of the fields of an ordinary header, 2 KiB, are left out: they belong to what any
        waiting request takes.
        """
        fields = self.fields
        objects = sum(map(getsizeof, fields)) + sum(map(getsizeof, fields.values()))
        texts = sum(map(len, fields.values()))
        return len(self.body) + max(texts, getsizeof(fields) + objects - _ORDINARY_BYTES)

    @property
    def is_response(self) -> bool:
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """True for a request that must not be answered."""
        return self.flag & (FLAG_ONEWAY | FLAG_RESPONSE) == FLAG_ONEWAY

    def reply(
        self,
        code: int = 0,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        remark: str | None = None,
    ) -> "Frame":
        """Make the answer to this request: ``code`` 0 is success.

        It repeats the opaque and the serialize type, for a client older than 4.0 reads the type
        byte as part of a length and can take only its own, 0. Language and version are ours:
        an old client cannot parse the name of a newer requester's language.
        """
        return Frame(
            code,
            self.opaque,
            FLAG_RESPONSE,
            {} if fields is None else fields,
            body,
            remark,
            LANGUAGE,
            VERSION,
            self.serialize,
        )


def request(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 0,
    oneway: bool = False,
) -> Frame:
    """Make a request from this side; always with a JSON header, which every peer can read."""
    return Frame(
        code=code,
        opaque=opaque,
        flag=FLAG_ONEWAY if oneway else 0,
        fields={} if fields is None else dict(fields),
        body=body,
    )
