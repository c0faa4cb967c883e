"""Resources of policies: topics, groups, the cluster, by name, by the beginning of it, or all.

Source: RocketMQ 5.3.3, Resource, ResourceType, ResourcePattern.
"""

from functools import lru_cache
from typing import Final, NamedTuple, final

from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, group_behind, has_only_offsets
from lanemq.wire.kv import KeyRule, KeySpan, all_keys, parse_rule, rule_name, span_text
from lanemq.wire.message import group_of_stage_group
from lanemq.wire.requests import Action, Kind

from .._named import must_be_named

NAME_MAX: Final = 255
"""Characters of a name that is remembered; no topic or group has more."""
_NEEDS_REMEMBERED: Final = 4096


KINDS: Final = {kind.lower(): kind for kind in Kind}
ACTIONS: Final = {action.lower(): action for action in Action}
_SENDING: Final = frozenset({Action.PUB})
_OF_MESSAGES: Final = frozenset({Action.PUB, Action.SUB, Action.GET})
"""The actions of members of a group on its dead letters: none changes or deletes their topic."""


@final
class Resource(NamedTuple):
    """A resource as policies name it."""

    kind: Kind
    name: str
    """The resource's name; with ``is_prefix`` the beginning of several names; "" means all of
    them."""
    is_prefix: bool

    @classmethod
    def parse(cls, text: str) -> "Resource | None":
        """Read ``Topic:T``, ``Topic:T*``, ``Topic:*`` or ``*``; None for anything else, such as a
        ``*`` before the end. (To 5.3.3, ``Topic:a*b`` is one name, and ``Topic:a*b*`` is ``a*``.)

        Raises ``ValueError`` for keys of a namespace (``Topic:%KV%N/…``) that cannot be read, and
        for ``Any:N``. (To 5.3.3 that is everything, whatever N is.)
        """
        if text == "*":
            return EVERYTHING
        kind_name, _, name = text.partition(":")
        kind = KINDS.get(kind_name.lower())
        if kind is None:
            return None
        if kind is Kind.ANY:
            if name not in ("", "*"):
                raise ValueError(
                    f"The resource is invalid: {kind} has no name: write {Kind.TOPIC}:{name} "
                    f"or {Kind.GROUP}:{name}, or * for all"
                )
            return EVERYTHING
        named = parse_rule(name) if kind is Kind.TOPIC else None
        if named is not None:
            name = rule_name(*named)
        beginning, star, more = name.partition("*")
        return None if more else cls(kind, beginning, bool(star))

    @property
    def keys(self) -> tuple[str, KeyRule] | None:
        """The namespace and the keys of it that are meant; None for anything else."""
        if self.kind is not Kind.TOPIC:
            return None
        return parse_rule(self.name + "*" * self.is_prefix)

    @property
    def key(self) -> str:
        """The resource as text."""
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind}:{self.name}{'*' * self.is_prefix}"


EVERYTHING: Final = Resource(Kind.ANY, "", True)


class Need(NamedTuple):
    """A resource that a request uses; any one of the actions will do."""

    kind: Kind
    name: str
    actions: frozenset[Action]
    keys: KeySpan | None = None
    """The keys of the namespace of that name that are used, where a request has them apart."""

    @property
    def key(self) -> str:
        """The resource as text."""
        return f"{self.kind}:{self.name if self.keys is None else span_text(self.keys)}"

    def is_named_by(self, resource: Resource) -> bool:
        """Return whether a policy about a resource, of which this is one, says enough.

        One for all topics or groups does not, for what belongs to a group. Neither does the
        beginning of a name, for topics with messages of many others.
        """
        is_sent_to = self.actions == _SENDING
        if self.kind is Kind.TOPIC and must_be_named(self.name, is_sent_to=is_sent_to):
            return resource.kind is Kind.TOPIC and not resource.is_prefix
        return self.owner is None or bool(resource.name.strip("%"))

    @property
    def owner(self) -> "Need | None":
        """The need of the group to which dead letters or stage records belong; None for anything
        else."""
        if self.kind is Kind.TOPIC:
            if not self.name.startswith(DLQ_PREFIX) or has_only_offsets(self.name):
                return None
            reads = (Action.SUB,) if self.actions <= _OF_MESSAGES else ()
            return group_need(self.name, *reads, *self.actions)
        group = group_of_stage_group(self.name) if self.kind is Kind.GROUP else None
        return None if group is None else group_need(group, *self.actions)


def topic_need(topic: str, *actions: Action) -> Need:
    """Return the need of a topic, or of the group whose retry topic it is."""
    return (_topic_need if len(topic) <= NAME_MAX else _topic_need.__wrapped__)(topic, *actions)


def keys_need(span: KeySpan, actions: frozenset[Action]) -> Need:
    """Return the need of keys."""
    return Need(Kind.TOPIC, all_keys(span.namespace), actions, span)


def progress_need(topic: str, *actions: Action) -> Need:
    """Return the need of the offsets in a topic; those under the names of shadow groups' topics
    belong to the group."""
    is_groups = has_only_offsets(topic) and group_behind(topic) != topic
    return (group_need if is_groups else topic_need)(topic, *actions)


def group_need(group: str, *actions: Action) -> Need:
    """Return the need of a group, which may be named by its retry topic."""
    return (_group_need if len(group) <= NAME_MAX else _group_need.__wrapped__)(group, *actions)


@lru_cache(maxsize=_NEEDS_REMEMBERED)
def _topic_need(topic: str, *actions: Action) -> Need:
    if topic.startswith(RETRY_PREFIX) and not has_only_offsets(topic):
        return group_need(topic, *actions)
    return Need(Kind.TOPIC, topic, frozenset(actions))


@lru_cache(maxsize=_NEEDS_REMEMBERED)
def _group_need(group: str, *actions: Action) -> Need:
    return Need(Kind.GROUP, group_behind(group), frozenset(actions))
