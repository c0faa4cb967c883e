"""Access control of a broker's ports: accounts, what they may do, and the check of each request."""

from ._access_settings import AccessSettings
from ._control import AccessControl, AccountControl
from ._files import AccountFiles
from ._guard import guard_by
from ._requests import register
from ._rights import (
    UNLIMITED,
    Rights,
    Sender,
    Touched,
    changes_progress,
    consumes_as,
    produces_as,
    reads_group,
    reads_keys,
    reads_of,
    replies_to,
    sends_to,
)

__all__ = [
    "UNLIMITED",
    "AccessControl",
    "AccessSettings",
    "AccountControl",
    "AccountFiles",
    "Rights",
    "Sender",
    "Touched",
    "changes_progress",
    "consumes_as",
    "guard_by",
    "produces_as",
    "reads_group",
    "reads_keys",
    "reads_of",
    "register",
    "replies_to",
    "sends_to",
]
