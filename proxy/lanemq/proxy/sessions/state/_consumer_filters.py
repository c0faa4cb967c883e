"""The compiled filters of a consumer group, kept equal to the subscriptions of its heartbeats.

Source: RocketMQ 4.9.8, ConsumerFilterManager, which also keeps them in a file; here they live
as long as the group has a member, since without one there is nobody to filter for.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, final

from lanemq.wire import LocalProtocolError, Refused, ResponseCode
from lanemq.wire.bodies import ExpressionType, SubscriptionData, parse_tag_expression
from lanemq.wire.sql92 import Selector, SqlInvalid, compile_sql

EXPRESSION_CHARS_MAX: Final = 16_384
"""The longest accepted subscription, of tags or SQL. (Apache's brokers have no limit.)"""

HEARTBEAT_TOKENS_MAX: Final = 8192
"""Tokens of SQL that one heartbeat may bring again, in all its subscriptions together."""
_TOKENS_OF_EACH: Final = 10
"""Tokens that an expression counts for beside its own."""

SUB_ALL: Final = "*"
PARSE_FAILED: Final = "parse the consumer's subscription failed"


class ConsumerFilter(NamedTuple):
    """A compiled filter. ``version_ms`` is that of the newest subscription with its expression."""

    expression_type: str
    expression: str
    version_ms: int
    selector: Selector


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether a subscription is by tags, as are those of old clients that name no type."""
    return not expression_type or expression_type == ExpressionType.TAG


def compile_filter(expression_type: str, expression: str) -> Selector:
    """Compile an expression in SQL92. Raises ``SqlInvalid``."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise SqlInvalid(too_long(expression), expression, EXPRESSION_CHARS_MAX)
    if expression_type != ExpressionType.SQL92:
        raise SqlInvalid(f"no filter is of type {expression_type}", expression, 0)
    return compile_sql(expression)


Compile = Callable[[str, str], Selector]
"""Compiles an expression of a type. Raises ``SqlInvalid``."""


@final
class HeartbeatCompiler:
    """Compiles the expressions of one heartbeat: each once, and not too many for one turn."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], Selector | SqlInvalid] = {}
        self._tokens = 0

    def compile(self, expression_type: str, expression: str) -> Selector:
        """Compile an expression. Raises ``SqlInvalid``, and ``Refused`` (SYSTEM_BUSY) for one
        too many."""
        found = self._compiled.get((expression_type, expression))
        if found is None:
            try:
                found = compile_filter(expression_type, expression)
            except SqlInvalid as error:
                found = error
            self._tokens += _TOKENS_OF_EACH + found.tokens
            if self._tokens > HEARTBEAT_TOKENS_MAX:
                remark = (
                    f"the new SQL92 subscriptions of this heartbeat have more than "
                    f"{HEARTBEAT_TOKENS_MAX} words and signs: use shorter ones, or more clients"
                )
                raise Refused(ResponseCode.SYSTEM_BUSY, remark)
            self._compiled[expression_type, expression] = found
        if isinstance(found, SqlInvalid):
            raise found
        return found


def too_long(expression: str) -> str:
    """Describe the fault of an expression beyond the limit."""
    return f"{len(expression)} characters, at most {EXPRESSION_CHARS_MAX} are taken"


def tag_codes(expression: str | None) -> frozenset[int] | None:
    """Return the hashes of the tags in ``a || b``; None for an expression that wants everything.

    Raises ``Refused`` (SUBSCRIPTION_PARSE_FAILED) for one that names no tag, or is too long.
    """
    if expression is not None and len(expression) > EXPRESSION_CHARS_MAX:
        remark = f"{PARSE_FAILED}: {too_long(expression)}"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
    try:
        return parse_tag_expression(expression).codes or None
    except LocalProtocolError as error:
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, PARSE_FAILED) from error


@final
class ConsumerFilters:
    """The filters of one group, by topic. Pure."""

    def __init__(self) -> None:
        self._filters: dict[str, ConsumerFilter] = {}
        self._codes: dict[str, tuple[str, frozenset[int] | None]] = {}

    def is_new(self, subscription: SubscriptionData) -> bool:
        """Return whether ``register`` would compile the expression of a subscription."""
        if is_tag_type(subscription.expression_type) or not subscription.sub_string:
            return False
        old = self._filters.get(subscription.topic)
        return old is None or subscription.sub_version > old.version_ms

    def register(
        self, subscriptions: Iterable[SubscriptionData], compiled: Compile = compile_filter
    ) -> None:
        """Take over newer subscriptions of a heartbeat.

        An expression that is not valid takes the place of a valid one, and there is no filter
        then: better that its client hears of it than that it gets what it did not ask for.
        """
        named = set()
        for new in subscriptions:
            named.add(new.topic)
            if not self.is_new(new):
                continue
            try:
                selector = compiled(new.expression_type, new.sub_string)
            except SqlInvalid:
                self._filters.pop(new.topic, None)
            else:
                self._filters[new.topic] = ConsumerFilter(
                    new.expression_type, new.sub_string, new.sub_version, selector
                )
        for topic in [topic for topic in self._filters if topic not in named]:
            del self._filters[topic]
        for topic in [topic for topic in self._codes if topic not in named]:
            del self._codes[topic]

    def drop(self, topic: str) -> None:
        """Forget what is kept of a topic."""
        self._filters.pop(topic, None)
        self._codes.pop(topic, None)

    def tag_codes(self, subscription: SubscriptionData) -> frozenset[int] | None:
        """Return the tag hashes of one of the group's subscriptions; None for everything.

        What the client hashed itself counts; for one that sends only the text they are made
        once. Raises ``Refused`` as the function of that name.
        """
        text = subscription.sub_string
        if text == SUB_ALL or subscription.class_filter_mode:
            return None
        if subscription.code_set:
            return subscription.code_set
        known = self._codes.get(subscription.topic)
        if known is None or known[0] != text:
            known = self._codes[subscription.topic] = (text, tag_codes(text))
        return known[1]

    def get(self, topic: str) -> ConsumerFilter | None:
        """Return the filter for ``topic``; None where the group has none, or none that is valid."""
        return self._filters.get(topic)
