"""Which messages of a queue a subscription wants, as far as the queue itself can tell.

A consume queue has 8 bytes for the hash of each message's tags; the client compares the tags
themselves again. Filtering by properties (SQL92) is refused, as a reference broker with
enablePropertyFilter=false does it.

Source: RocketMQ 4.9.8, ExpressionMessageFilter, FilterAPI, PullMessageProcessor.
"""

from functools import lru_cache
from typing import Final

from lanemq.wire import (
    LocalProtocolError,
    Refused,
    ResponseCode,
    SubscriptionData,
    parse_tag_expression,
)

SUB_ALL: Final = "*"
TAG_TYPE: Final = "TAG"


def require_tags(expression_type: str | None) -> None:
    """Raise ``Refused`` unless ``expression_type`` is TAG, or absent as with old clients."""
    if expression_type and expression_type != TAG_TYPE:
        remark = f"The broker does not support consumer to filter message by {expression_type}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


@lru_cache(maxsize=4096)
def tag_codes(expression: str | None) -> frozenset[int] | None:
    """The hashes of the tags in ``a || b``; None for an expression that wants everything.

    Raises ``Refused`` (SUBSCRIPTION_PARSE_FAILED) for one that names no tag.
    """
    try:
        return parse_tag_expression(expression).codes or None
    except LocalProtocolError as error:
        remark = "parse the consumer's subscription failed"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from error


def subscribed_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """The tag hashes of a subscription from a heartbeat; None for everything.

    What the client hashed itself counts; one that sends only the text is hashed here.
    """
    if subscription.sub_string == SUB_ALL or subscription.class_filter_mode:
        return None
    if subscription.code_set:
        return subscription.code_set
    return tag_codes(subscription.sub_string)
