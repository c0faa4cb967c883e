"""Reasons for which a listener did not finish its messages, as dead letters carry them."""

from collections.abc import Sequence
from typing import Final

import trio

from lanemq.wire import show_text

from ..._errors import BodyNotRestored
from ..._messages import Outcome, ReceivedMessage, Retry
from ...listeners._ordered_listeners import AbandonMessage
from ...observe._log import get_logger

LOGGER = get_logger("lanemq.sdk.listener")

REASON_BYTES_MAX: Final = 500
TOO_LONG: Final = "the listener took longer than consume_timeout_s"


def log_failure(messages: Sequence[ReceivedMessage], error: BaseException) -> None:
    """Log a listener's error: whole at first, then in a line when the count has doubled.

    An orderly listener gets its messages again each second, for as long as it fails.
    """
    count = messages[0].retries_in_place + 1
    if count == 1:
        LOGGER.error("the listener failed on %s, which comes again", messages, exc_info=error)
    elif count & (count - 1) == 0:
        LOGGER.error("the listener failed %d times in a row on %s: %r", count, messages, error)


def abandonment(
    error: AbandonMessage | BodyNotRestored, messages: Sequence[ReceivedMessage]
) -> AbandonMessage | Outcome:
    """Return ``error`` as the outcome of a batch, or RETRY where it names no message of that."""
    if isinstance(error, BodyNotRestored):
        place = error.queue, error.queue_offset
        named = [one for one in messages if (one.queue, one.queue_offset) == place]
        error = AbandonMessage(str(error), messages=named)
    if error.of(messages):
        return error
    LOGGER.error("%r is raised for none of %s, which come again", error, messages)
    return Outcome.RETRY


def reason_of(outcome: object, error: BaseException | None) -> str:
    """Return in one line why a call of a listener was no success: an error, or its answer.

    Only what UTF-8 can encode and properties can hold, in at most ``REASON_BYTES_MAX`` bytes.
    """
    if isinstance(error, trio.Cancelled):
        return TOO_LONG
    if error is not None:
        return _line(error)
    if isinstance(outcome, Outcome):
        return f"the listener returned Outcome.{outcome.name}"
    if isinstance(outcome, Retry):
        return "the listener returned Retry"
    return f"the listener returned a {type(outcome).__name__}, which is not an Outcome"


def _line(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the application's own
        text = "its text cannot be had"
    first = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = show_text(f"{name}: {first}" if first else name)
    data = line.encode()
    if len(data) > REASON_BYTES_MAX:
        return data[: REASON_BYTES_MAX - 3].decode("utf-8", "ignore") + "…"  # of 3 bytes
    return line
