"""Topics with messages of many others: a right to all topics, or to many by the beginning of their
names, is none to read these. Neither is it one to names that no topic has."""

from typing import Final

from lanemq.wire import WAITING_TOPICS, has_only_offsets, reply_topic

_REPLIES: Final = reply_topic("")
"""The end of the name of a cluster's topic for replies."""


def must_be_named(topic: str, *, is_sent_to: bool) -> bool:
    """Return whether only a permission, or policy, with exactly this name is about a topic.

    Messages of all others wait there, or the replies that others were sent, which need no right
    to send (``is_sent_to``: that is all). Or the topic is left from a store of before that had one
    of a name for offsets, to which anybody could send.
    """
    return (
        topic in WAITING_TOPICS
        or (not is_sent_to and topic.endswith(_REPLIES))
        or has_only_offsets(topic)
    )
