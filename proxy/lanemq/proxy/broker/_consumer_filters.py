"""The compiled filters of a consumer group, kept equal to what its heartbeats subscribe.

Source: RocketMQ 4.9.8, ConsumerFilterManager, which also keeps them in a file; here they live
as long as the group has a member, since without one there is nobody to filter for.
"""

from collections.abc import Iterable
from typing import NamedTuple, final

from lanemq.wire import ExpressionType, SubscriptionData
from lanemq.wire.sql92 import Selector, SqlInvalid, compile_sql


class ConsumerFilter(NamedTuple):
    """One filter. ``version_ms`` is that of the newest subscription with its expression."""

    expression_type: str
    expression: str
    version_ms: int
    selector: Selector


def is_tag_type(expression_type: str | None) -> bool:
    """Whether a subscription goes by tags, as those of old clients do that name no type."""
    return not expression_type or expression_type == ExpressionType.TAG


def compile_filter(expression_type: str, expression: str) -> Selector:
    """The filter of an expression that is not of tags. Raises ``SqlInvalid``."""
    if expression_type != ExpressionType.SQL92:
        raise SqlInvalid(f"no filter is of type {expression_type}", expression, 0)
    return compile_sql(expression)


@final
class ConsumerFilters:
    """The filters of one group, by topic. Pure."""

    def __init__(self) -> None:
        self._filters: dict[str, ConsumerFilter] = {}

    def register(self, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take over the subscriptions of a heartbeat, where they are newer.

        An expression that is not valid takes the place of a valid one, and there is no filter
        then: better that its client hears of it than that it gets what it did not ask for.
        """
        named = set()
        for new in subscriptions:
            named.add(new.topic)
            if is_tag_type(new.expression_type) or not new.sub_string:
                continue
            old = self._filters.get(new.topic)
            if old is not None and new.sub_version <= old.version_ms:
                continue
            try:
                selector = compile_filter(new.expression_type, new.sub_string)
            except SqlInvalid:
                self._filters.pop(new.topic, None)
            else:
                self._filters[new.topic] = ConsumerFilter(
                    new.expression_type, new.sub_string, new.sub_version, selector
                )
        for topic in [topic for topic in self._filters if topic not in named]:
            del self._filters[topic]

    def get(self, topic: str) -> ConsumerFilter | None:
        """The filter for ``topic``; None where the group has none, or none that is valid."""
        return self._filters.get(topic)
