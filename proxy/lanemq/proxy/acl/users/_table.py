"""The users of a broker and their policies, in one file beside its other tables.

Source: RocketMQ 5.3.3, User, Acl; there they are in a RocksDB of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, final

from lanemq.local import replace_file
from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

from ..._settings import ConfigError
from .._signature_check import SignatureCheck
from ._policies import POLICY_TYPES, Decider, Entry, Policies, PolicyType, is_network
from ._resources import ACTIONS, Resource

SUBJECT_PREFIX: Final = "User:"


@final
class UserType(StrEnum):
    """The types of users; a super user may do everything."""

    SUPER = "Super"
    NORMAL = "Normal"


@final
class UserStatus(StrEnum):
    """The two states of a user: let in, or refused."""

    ENABLE = "enable"
    DISABLE = "disable"


USER_TYPES: Final = {one.lower(): one for one in UserType}
USER_STATUSES: Final = {one.lower(): one for one in UserStatus}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """A user, with password, status and policies."""

    name: str
    password: str = field(repr=False)
    user_type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    policies: Policies = field(default_factory=dict)
    signatures: SignatureCheck = field(compare=False, repr=False)
    decider: Decider = field(init=False, compare=False, repr=False)
    """The decisions of its policies."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "decider", Decider(self.policies))

    @classmethod
    def make(cls, name: str, password: str, user_type: UserType) -> "User":
        """Return a new user, who is let in."""
        return cls(
            name=name,
            password=password,
            user_type=user_type,
            signatures=SignatureCheck(password),
        )

    def changed(self, info: UserInfo) -> "User":
        """Return the user with the changes that ``info`` names."""
        password = info.password if info.password and info.password.strip() else self.password
        return replace(
            self,
            password=password,
            signatures=SignatureCheck(password),
            user_type=USER_TYPES.get((info.user_type or "").lower(), self.user_type),
            status=USER_STATUSES.get((info.user_status or "").lower(), self.status),
        )

    @property
    def is_let_in(self) -> bool:
        """False for a user who is disabled."""
        return self.status is UserStatus.ENABLE

    @property
    def info(self) -> UserInfo:
        """The user as tools see it."""
        return UserInfo(self.name, self.password, str(self.user_type), str(self.status))

    @property
    def acl(self) -> AclInfo:
        """The policies as tools see them."""
        policies = tuple(
            PolicyInfo(str(policy_type), tuple(map(_entry_info, entries.values())))
            for policy_type, entries in self.policies.items()
            if entries
        )
        return AclInfo(f"{SUBJECT_PREFIX}{self.name}", policies)


@final
class UserTable:
    """The users by name, written to ``path`` at every change.

    Changes take a while, and are made by one thread at a time; others may read meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.users: Mapping[str, User] = _load(path)

    def put(self, user: User) -> None:
        """Add or replace a user. Raises ``OSError``, and nothing has changed then."""
        self._write({**self.users, user.name: user})

    def delete(self, name: str) -> None:
        """Remove a user, if it exists; errors as ``put``."""
        self._write({one: user for one, user in self.users.items() if one != name})

    def _write(self, users: Mapping[str, User]) -> None:
        ordered = [users[name] for name in sorted(users)]
        data = fastjson.dumps(
            {
                "users": [user.info.to_json() for user in ordered],
                "acls": [user.acl.to_json() for user in ordered if user.policies],
            }
        )
        replace_file(self._path, data, is_secret=True)
        self.users = users


def entries_of(policies: tuple[PolicyInfo, ...]) -> list[tuple[PolicyType, Entry]]:
    """Read entries as tools write them. Raises ``ValueError`` with Apache's text."""
    if not policies:
        raise ValueError("The policies is empty.")
    found = []
    for policy in policies:
        policy_type = POLICY_TYPES.get((policy.policy_type or "").lower(), PolicyType.CUSTOM)
        if not policy.entries:
            raise ValueError("The policy entries is empty.")
        found += [(policy_type, _entry(info)) for info in policy.entries]
    return found


def _entry(info: PolicyEntryInfo) -> Entry:
    resource = Resource.parse(info.resource or "")
    if resource is None:
        raise ValueError("The resource is null.")
    if "any" in (action.lower() for action in info.actions):
        raise ValueError("The actions can not be Any.")
    actions = tuple(ACTIONS[one.lower()] for one in info.actions if one.lower() in ACTIONS)
    if not actions:
        raise ValueError("The actions is empty.")
    networks = info.source_ips or ()
    for network in networks:
        if not network.strip():
            raise ValueError("The source ip is empty.")
        if not is_network(network):
            raise ValueError("The source ip is invalid.")
    is_allowed = {"allow": True, "deny": False}.get((info.decision or "").lower())
    if is_allowed is None:
        raise ValueError("The decision is null or illegal.")
    return Entry(resource, actions, networks, is_allowed)


def _entry_info(entry: Entry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        entry.resource.key,
        tuple(str(action) for action in entry.actions),
        entry.networks or None,
        "Allow" if entry.is_allowed else "Deny",
    )


def _load(path: Path) -> dict[str, User]:
    """Read the file; none means no users. Raises ``ConfigError`` for one that is damaged, or has a
    policy that cannot be: a start without it might let somebody in whom it denies."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    try:
        whole = fastjson.loads(data, is_own=True)
        assert isinstance(whole, dict)
        users: dict[str, User] = {}
        for one in whole["users"]:
            info = UserInfo.from_json(one)
            made = User.make(info.username or "", info.password or "", UserType.NORMAL)
            users[made.name] = made.changed(info)
        for one in whole["acls"]:
            acl = AclInfo.from_json(one)
            name = (acl.subject or "").removeprefix(SUBJECT_PREFIX)
            policies: dict[PolicyType, dict[Resource, Entry]] = {}
            try:
                entries = entries_of(acl.policies)
            except ValueError as error:
                raise ConfigError(f"{path}, policies of {acl.subject}: {error}") from None
            for policy_type, entry in entries:
                policies.setdefault(policy_type, {})[entry.resource] = entry
            users[name] = replace(users[name], policies=policies)
    except ConfigError:
        raise
    except (RemoteProtocolError, ValueError, KeyError, TypeError, AssertionError):
        raise ConfigError(
            f"{path} is damaged: put back a copy of it, or delete it and make the users again, "
            "beginning with initAuthenticationUser"
        ) from None
    return users
