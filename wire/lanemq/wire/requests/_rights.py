"""Rights to objects: permissions of 4.x accounts, and actions of 5.x users on resources.

Source: RocketMQ 4.9.8, Permission; 5.3.3, Action, ResourceType.
"""

from enum import Enum, StrEnum
from typing import final


@final
class Kind(StrEnum):
    """The kinds of resources in policies of 5.x, which are the kinds of objects everywhere."""

    ANY = "Any"
    CLUSTER = "Cluster"
    """The broker as a whole: its settings, its files, and what it has of all topics and groups."""
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


@final
class Right(Enum):
    """A right of a 4.x account to an object."""

    READ = "SUB"
    WRITE = "PUB"
    USE = "PUB or SUB"
    ADMIN = "administrator"
    NONE = "-"
