"""The limits of a heartbeat: names of groups, and numbers of groups and subscriptions."""

from typing import Final

from lanemq.wire import Refused, ResponseCode, has_only_offsets
from lanemq.wire.bodies import HeartbeatData

from ...net.limits._names import check_name

GROUPS_MAX: Final = 1500
"""Most groups that one connection may be in: they come in one heartbeat, and end together."""
SUBSCRIPTIONS_MAX: Final = 2000
"""Most subscriptions in one heartbeat."""


def check_names(data: HeartbeatData) -> None:
    """Raise ``Refused`` for names that are too long to be kept, or are those of offsets."""
    check_name("client", data.client_id)
    for producer in data.producer_data_set:
        _check_group("producer group", producer.group_name)
    for consumer in data.consumer_data_set:
        _check_group("consumer group", consumer.group_name)
        check_name("consume type", consumer.consume_type)
        check_name("message model", consumer.message_model)
        check_name("start of consumption", consumer.consume_from_where)


def _check_group(kind: str, name: str) -> None:
    check_name(kind, name)
    if has_only_offsets(name):
        remark = f"offsets are kept under the name {name}: it is no {kind}'s"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


def check_numbers(data: HeartbeatData, groups: int) -> None:
    """Raise ``Refused`` for more than can be registered without making all others wait.

    ``groups`` is the number of groups that the connection would be in.
    """
    if groups > GROUPS_MAX:
        remark = (
            f"this connection would be in {groups} groups, at most {GROUPS_MAX} are kept for "
            "one: use more clients"
        )
        raise Refused(ResponseCode.SYSTEM_BUSY, remark)
    subscriptions = sum(len(one.subscription_data_set) for one in data.consumer_data_set)
    if subscriptions > SUBSCRIPTIONS_MAX:
        remark = (
            f"a heartbeat with {subscriptions} subscriptions, at most {SUBSCRIPTIONS_MAX} are "
            "taken of one client"
        )
        raise Refused(ResponseCode.SYSTEM_BUSY, remark)
