"""Resources of policies: topics, groups, the cluster, by name, by the beginning of it, or all.

Source: RocketMQ 5.3.3, Resource, ResourceType, ResourcePattern.
"""

from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Self, final

from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX

NAME_MAX: Final = 255
"""Characters of a name that is remembered; no topic or group has more."""
_NEEDS_REMEMBERED: Final = 4096


@final
class Kind(StrEnum):
    """The kinds of resources."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


@final
class Action(StrEnum):
    """An action on a resource; ``ALL`` in a policy stands for each of them."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


KINDS: Final = {kind.lower(): kind for kind in Kind}
ACTIONS: Final = {action.lower(): action for action in Action}


@final
class Resource(NamedTuple):
    """A resource as policies name it."""

    kind: Kind
    name: str
    """The resource's name; with ``is_prefix`` the beginning of several names; "" means all of
    them."""
    is_prefix: bool

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read ``Topic:T``, ``Topic:T*``, ``Topic:*`` or ``*``; None for anything else."""
        if text == "*":
            return cls(Kind.ANY, "", True)
        kind_name, _, name = text.partition(":")
        kind = KINDS.get(kind_name.lower())
        if kind is None:
            return None
        return cls(kind, name.partition("*")[0], name.endswith("*"))

    @property
    def key(self) -> str:
        """The resource as text."""
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind}:{self.name}{'*' * self.is_prefix}"

    def covers(self, kind: Kind, name: str) -> bool:
        """Return whether a topic, group or cluster of that name is meant."""
        if self.kind is Kind.ANY:
            return True
        if self.kind is not kind:
            return False
        return name.startswith(self.name) if self.is_prefix else name == self.name


class Need(NamedTuple):
    """A resource that a request uses; any one of the actions will do."""

    kind: Kind
    name: str
    actions: frozenset[Action]

    @property
    def key(self) -> str:
        """The resource as text."""
        return f"{self.kind}:{self.name}"


def topic_need(topic: str, *actions: Action) -> Need:
    """Return the need of a topic, or of the group whose retry topic it is."""
    return (_topic_need if len(topic) <= NAME_MAX else _topic_need.__wrapped__)(topic, *actions)


def group_need(group: str, *actions: Action) -> Need:
    """Return the need of a group, which may be named by its retry topic."""
    return (_group_need if len(group) <= NAME_MAX else _group_need.__wrapped__)(group, *actions)


@lru_cache(maxsize=_NEEDS_REMEMBERED)
def _topic_need(topic: str, *actions: Action) -> Need:
    if topic.startswith(RETRY_PREFIX):
        return group_need(topic, *actions)
    return Need(Kind.TOPIC, topic, frozenset(actions))


@lru_cache(maxsize=_NEEDS_REMEMBERED)
def _group_need(group: str, *actions: Action) -> Need:
    name = group.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    return Need(Kind.GROUP, name, frozenset(actions))
