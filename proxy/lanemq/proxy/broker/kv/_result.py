"""The typed result of requests for keys and values."""

from typing import Self, final

from lanemq.wire.kv import encode_answer

from ...net._answers import Result
from ...net._dispatch import Handlers
from ...net._reply_template import ReplyTemplate


@final
class KvResult(Result, frozen=True, gc=False):
    """The result of a request: a read's, or that of a write that is applied."""

    body: bytes
    """The answer's body, as clients read it."""

    @classmethod
    def of(cls, answer: object) -> Self:
        """Return the result that tells ``answer``, one of the values of ``lanemq.wire.kv``."""
        return cls(encode_answer(answer))


def add_encoder(handlers: Handlers) -> None:
    """Register the encoder of results at a port."""
    done = ReplyTemplate().encode
    handlers.encode(KvResult, lambda request, result: done(request, (), result.body))
