"""Which messages a subscription wants.

By tags: a consume queue has 8 bytes for the hash of each message's tags, and the client
compares the tags themselves again. By properties (SQL92): the record is read for it.

Source: RocketMQ 4.9.8, ExpressionMessageFilter, ExpressionForRetryMessageFilter, FilterAPI,
PullMessageProcessor.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from lanemq.wire import (
    LocalProtocolError,
    Property,
    Refused,
    ResponseCode,
    SubscriptionData,
    get_property,
    parse_tag_expression,
)
from lanemq.wire.sql92 import SqlInvalid

from ._clients import ConsumerGroup
from ._consumer_filters import ConsumerFilters, compile_filter, is_tag_type

SUB_ALL: Final = "*"
PARSE_FAILED: Final = "parse the consumer's subscription failed"


class Wanted(NamedTuple):
    """What a pull is to be given; both conditions must hold where both are there."""

    tag_codes: frozenset[int] | None = None
    """Hashes of tags; None for all."""
    matches: Callable[[bytes], bool] | None = None
    """Judges the property string of a message; None if it does not matter."""


def require_supported(expression_type: str | None, *, property_filter: bool) -> None:
    """Raise ``Refused`` for a type that is not TAG, unless the broker filters by properties."""
    if not property_filter and not is_tag_type(expression_type):
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
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, PARSE_FAILED) from error


def subscribed_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """The tag hashes of a subscription from a heartbeat; None for everything.

    What the client hashed itself counts; one that sends only the text is hashed here.
    """
    if subscription.sub_string == SUB_ALL or subscription.class_filter_mode:
        return None
    if subscription.code_set:
        return subscription.code_set
    return tag_codes(subscription.sub_string)


def wanted_here(
    expression: str | None, expression_type: str | None, *, property_filter: bool
) -> Wanted:
    """What a pull wants that brings its subscription along.

    Raises ``Refused``: SUBSCRIPTION_PARSE_FAILED, or as ``require_supported``. An expression
    that is no SQL makes 4.9.8 deliver everything, since it looks for that with an assertion.
    """
    if is_tag_type(expression_type):
        return Wanted(tag_codes(expression))
    assert expression_type
    if not expression:
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, PARSE_FAILED)
    require_supported(expression_type, property_filter=property_filter)
    try:
        return Wanted(matches=compile_filter(expression_type, expression).matches_data)
    except SqlInvalid as error:
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, PARSE_FAILED) from error


def wanted_of_group(
    group: ConsumerGroup[Any], topic: str, sub_version: int, *, property_filter: bool
) -> Wanted:
    """What a pull wants whose subscription is in the group's heartbeats.

    A pull may be faster than the heartbeat that subscribes. It is refused at once, and the
    client tries again. Raises ``Refused``.
    """
    subscription = group.subscriptions.get(topic)
    if subscription is None:
        remark = "the consumer's subscription not exist"
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if subscription.sub_version < sub_version:
        remark = "the consumer's subscription not latest"
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    if is_tag_type(subscription.expression_type):
        return Wanted(subscribed_codes(subscription))
    found = group.filters.get(topic)
    if found is None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        raise Refused(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if found.version_ms < sub_version:
        remark = "the consumer's consumer filter data not latest"
        raise Refused(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
    require_supported(subscription.expression_type, property_filter=property_filter)
    return Wanted(matches=found.selector.matches_data)


def wanted_retries(wanted: Wanted, filters: ConsumerFilters) -> Wanted:
    """``wanted`` of a retry topic, and of those what the filter of their own topic lets pass."""

    def matches(properties_data: bytes) -> bool:
        topic = get_property(properties_data, Property.RETRY_TOPIC.encode())
        found = filters.get(topic.decode("utf-8", "replace")) if topic else None
        return found is None or found.selector.matches_data(properties_data)

    return Wanted(wanted.tag_codes, matches)
