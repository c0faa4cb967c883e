"""Interceptors: functions that may alter messages on their way out and in; and codecs beside them.

On the way out: the interceptors in their order, then the codec. On the way in: the codec, then the
interceptors in their order, then the listener.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace as replaced

from ._codecs import CodecLike, DecodeErrors, as_codec
from ._errors import DecodingFailed, MessageRejected, WrongUse, WrongValue
from ._messages import Message, Outcome, ReceivedMessage, Retry
from .listeners._listener import Handle
from .listeners._listener_context import like
from .listeners._ordered_listeners import AbandonMessage

SendInterceptor: TypeAlias = Callable[[Message], Message]
"""Returns the message to send in place of the one it is given; of the same topic. What it raises
leaves the call that sends, and nothing is sent. It does not wait."""

ConsumeInterceptor: TypeAlias = Callable[[ReceivedMessage], ReceivedMessage]
"""Returns the message to hand over in place of the one it is given, such as ``message.altered(…)``.
What it raises counts as raised by the listener. It does not wait."""


def outbound(
    message: Message, interceptors: Sequence[SendInterceptor], codec: CodecLike
) -> Message:
    """Return ``message`` as it is sent. Raises ``MessageRejected``, and what interceptors raise."""
    topic = message.topic
    for intercept in interceptors:
        message = intercept(message)
        if not isinstance(message, Message):
            raise WrongUse(f"the interceptor {_name(intercept)} returned {message!r}, no Message")
        if message.topic != topic:
            raise MessageRejected(
                f"the interceptor {_name(intercept)} changed the topic from {topic!r} to"
                f" {message.topic!r}: a topic cannot be altered"
            )
    found = as_codec(codec)
    if found is None:
        return message
    try:
        body = found.encode(message.body)
    except Exception as error:  # the codec's own
        raise MessageRejected(f"body cannot be encoded by {found!r}: {error}") from error
    if not isinstance(body, bytes):
        raise MessageRejected(f"{found!r} encoded the body as {type(body).__name__}, not bytes")
    return replaced(message, body=body)


def inbound(
    handle: Handle,
    interceptors: Sequence[ConsumeInterceptor],
    codec: CodecLike,
    errors: DecodeErrors,
) -> Handle:
    """Wrap a listener's function so that it gets messages decoded and altered."""
    decodes = codec is not None and errors is not DecodeErrors.RAISE
    if not interceptors and not decodes:
        return handle

    async def handle_altered(
        messages: Sequence[ReceivedMessage], *context: object
    ) -> Outcome | Retry | None:
        if decodes:
            failed: list[ReceivedMessage] = []
            for message in messages:
                try:
                    _ = message.value
                except DecodingFailed as error:
                    if errors is DecodeErrors.RETRY:
                        raise
                    failed.append(message)
                    first = error
            if failed:
                raise AbandonMessage(str(first), messages=failed) from first
        if interceptors:
            messages = [_altered(message, interceptors) for message in messages]
        return await handle(messages, *context)

    return like(handle, handle_altered)


def _altered(
    message: ReceivedMessage, interceptors: Sequence[ConsumeInterceptor]
) -> ReceivedMessage:
    for intercept in interceptors:
        message = intercept(message)
        if not isinstance(message, ReceivedMessage):
            raise WrongUse(
                f"the interceptor {_name(intercept)} returned {message!r}, no ReceivedMessage"
            )
    return message


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", repr(function))


def check_hooks(name: str, given: object) -> None:
    """Raise ``WrongValue`` unless an option ``name`` holds several hooks, or none."""
    if not isinstance(given, tuple | list):
        raise WrongValue(f"{name} must be a tuple of hooks, not {given!r}")


def check_interceptors(name: str, given: object) -> None:
    """Raise ``WrongValue`` unless an option ``name`` holds plain functions."""
    if not isinstance(given, tuple | list):
        raise WrongValue(f"{name} must be a tuple of functions, not {given!r}")
    for one in given:
        if not callable(one):
            raise WrongValue(f"{name} must be functions, not {one!r}")
        if inspect.iscoroutinefunction(one):
            raise WrongValue(f"{name} are called without waiting: write `def`")
