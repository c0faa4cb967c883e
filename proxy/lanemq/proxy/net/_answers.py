"""The answers of handlers: values, of which only a server's edge makes bytes."""

import msgspec

from lanemq.wire.frame import Frame

from ._stored_reply import StoredReply


class Result(msgspec.Struct, frozen=True, gc=False):
    """The base of typed results of handlers; each class of them has an encoder at the edge."""


Answer = Frame | Result
"""A handler's answer. A frame is the typed result of what is asked rarely; there are no bytes."""

Encoded = bytes | StoredReply
"""An answer on its way out; what has a large record may leave that in the log."""
