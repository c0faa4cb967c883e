"""Errors of the protocol, by who caused them: this side or the peer.

ProtocolError
 +-- LocalProtocolError    we asked for something the protocol cannot say
 +-- RemoteProtocolError   the peer sent something the protocol does not allow
Refused                    a handler says no: the peer gets a response code and a remark
"""

from typing import Final, final

from ._shown import show_text

ERROR_MAX: Final = 4000
"""Characters of the text of an error."""


class ShownError(Exception):
    """An error whose text may hold what a peer chose: it is shown escaped and cut, in one line.

    The attributes and ``args`` keep it as it came.
    """

    def __str__(self) -> str:
        return show_text(super().__str__(), ERROR_MAX)


class ProtocolError(ShownError):
    """Base of the errors of both sides; never raised itself."""


@final
class LocalProtocolError(ProtocolError):
    """Misuse by this side: a frame too large to send, a code that does not fit, a closed
    connection."""


class RemoteProtocolError(ProtocolError):
    """The peer's fault. The message names the byte or the field, and what was wrong with it.

    Met between frames it is fatal, for nobody knows where the next frame begins: close the
    connection. Met in the fields or the body of one request it is answered with ``hint``.
    """

    hint = 1
    """Response code to answer where an answer is still possible: SYSTEM_ERROR."""


class Refused(Exception):  # noqa: N818 - an answer, not an accident
    """A request that is answered with ``code`` (a response code other than success).

    ``remark`` is for people, and for the few clients that compare it; ``body`` is the answer's.
    All are public.
    """

    def __init__(self, code: int, remark: str, body: bytes = b"") -> None:
        super().__init__(code, remark)
        self.code = int(code)
        self.remark = remark
        self.body = body

    def __str__(self) -> str:
        return show_text(f"response code {self.code}: {self.remark}", ERROR_MAX)
