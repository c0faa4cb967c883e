"""The messages that a subscription selects.

By tags: a consume queue has 8 bytes for the hash of each message's tags, and the client
compares the tags themselves again. By properties (SQL92): the record is read for it.

Source: RocketMQ 4.9.8, ExpressionMessageFilter, ExpressionForRetryMessageFilter, FilterAPI,
PullMessageProcessor.
"""

from typing import Any, Final

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.message import Property, get_property
from lanemq.wire.sql92 import SqlInvalid

from ...sessions.state._consumer_filters import (
    PARSE_FAILED,
    SUB_ALL,
    ConsumerFilters,
    compile_filter,
    is_tag_type,
    tag_codes,
)
from ...sessions.state._members import ConsumerGroup
from ...sessions.state._pull_filters import PullFilters, Wanted

ALL: Final = Wanted()


def require_supported(expression_type: str | None, *, property_filter: bool) -> None:
    """Check a type of expression. Raises ``Refused`` for SQL92, unless the broker filters by
    properties."""
    if not property_filter and not is_tag_type(expression_type):
        remark = f"The broker does not support consumer to filter message by {expression_type}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


def wanted_here(
    expression: str | None,
    expression_type: str | None,
    filters: PullFilters,
    *,
    property_filter: bool,
) -> Wanted:
    """Return the filter of a pull that brings its subscription along.

    Raises ``Refused``: SUBSCRIPTION_PARSE_FAILED, or as ``require_supported``. An expression
    that is not SQL makes 4.9.8 deliver everything, since it looks for that with an assertion.
    """
    is_tags = is_tag_type(expression_type)
    if not expression:
        if is_tags:
            return ALL
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, PARSE_FAILED)
    if is_tags and expression == SUB_ALL:
        return ALL
    if not is_tags:
        require_supported(expression_type, property_filter=property_filter)
    wanted = filters.get(expression_type, expression)
    if wanted is None:
        wanted = _ready(expression, expression_type)
        filters.keep(expression_type, expression, wanted)
    return wanted


def _ready(expression: str, expression_type: str | None) -> Wanted:
    if is_tag_type(expression_type):
        return Wanted(tag_codes(expression))
    assert expression_type
    try:
        return Wanted(matches=compile_filter(expression_type, expression).matches_data)
    except SqlInvalid as error:
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, PARSE_FAILED) from error


def wanted_of_group(
    group: ConsumerGroup[Any], topic: str, sub_version: int, *, property_filter: bool
) -> Wanted:
    """Return the filter of a pull whose subscription is in the group's heartbeats.

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
        return Wanted(group.filters.tag_codes(subscription))
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
    """Narrow ``wanted`` of a retry topic to retries that the filter of their own topic lets
    pass."""

    def matches(properties_data: bytes) -> bool:
        topic = get_property(properties_data, Property.RETRY_TOPIC.encode())
        found = filters.get(topic.decode("utf-8", "replace")) if topic else None
        return found is None or found.selector.matches_data(properties_data)

    return Wanted(wanted.tag_codes, matches)
