"""Changes of the text of an account file.

Unchanged values stay as they are written; comments go, as at Apache's brokers. New keys
and secrets are quoted, so that everybody reads them as texts.

Source: RocketMQ 4.9.8, PlainPermissionManager.createAclAccessConfigMap, updateAccessConfig,
updateAclConfigFileVersion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import yaml

from lanemq.wire.bodies import DataVersion

from . import _keys as keys
from ._reading import version_of

_TEXT: Final = "tag:yaml.org,2002:str"
_BOOLEAN: Final = "tag:yaml.org,2002:bool"
_NUMBER: Final = "tag:yaml.org,2002:int"
_MAPPING: Final = "tag:yaml.org,2002:map"
_LIST: Final = "tag:yaml.org,2002:seq"
_NEVER_FOLD: Final = 1 << 30


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AccountChange:
    """An account as a tool wants it; what is None stays as it is, or is left out."""

    access_key: str
    secret_key: str
    white_address: str | None
    is_admin: bool
    default_topic_permission: str | None
    default_group_permission: str | None
    topic_permissions: Sequence[str] | None
    """Permissions of topics, each as ``topic=permission``."""
    group_permissions: Sequence[str] | None
    """Permissions of groups, each as ``group=permission``."""

    def __repr__(self) -> str:
        return f"<AccountChange of {self.access_key!r}>"


@final
class AccountText:
    """The text of one account file, which ``read_account_file`` has read without an error."""

    def __init__(self, data: bytes) -> None:
        root = yaml.compose(data, Loader=yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):  # an empty file
            root = yaml.MappingNode(_MAPPING, [])
        root.flow_style = False
        self._root = root

    def has(self, access_key: str) -> bool:
        """Return whether the account is in this file."""
        return any(_key_of(account) == access_key for account in self._accounts())

    def put(self, change: AccountChange) -> None:
        """Change an account, or add it; it is the last one then. Others of its key go."""
        before = [one for one in self._accounts() if _key_of(one) == change.access_key]
        account = before[0] if before else yaml.MappingNode(_MAPPING, [], flow_style=False)
        values = {
            keys.ACCESS_KEY: _text(change.access_key, style="'"),
            keys.SECRET_KEY: _text(change.secret_key, style="'"),
            keys.WHITE_ADDRESS: _text(change.white_address),
            keys.ADMIN: yaml.ScalarNode(_BOOLEAN, "true" if change.is_admin else "false"),
            keys.TOPIC_DEFAULT: _text(change.default_topic_permission or None),
            keys.GROUP_DEFAULT: _text(change.default_group_permission or None),
            keys.TOPICS: _texts(change.topic_permissions),
            keys.GROUPS: _texts(change.group_permissions),
        }
        for key, value in values.items():
            if value is not None:
                _set(account, key, value)
        self._set_accounts([*self._others(change.access_key), account])

    def remove(self, access_key: str) -> None:
        """Remove the account."""
        self._set_accounts(self._others(access_key))

    def set_white_addresses(self, patterns: Sequence[str]) -> None:
        """Replace the addresses that need no account."""
        _set(self._root, keys.WHITE_ADDRESSES, _texts(patterns))

    def encode(self, now_ms: int) -> bytes:
        """Return the text, with the next version."""
        version = (version_of(_get(self._root, keys.VERSION)) or DataVersion()).next(now_ms)
        row = yaml.MappingNode(_MAPPING, [], flow_style=False)
        _set(row, keys.COUNTER, yaml.ScalarNode(_NUMBER, str(version.counter)))
        _set(row, keys.TIMESTAMP, yaml.ScalarNode(_NUMBER, str(version.timestamp)))
        _set(self._root, keys.VERSION, yaml.SequenceNode(_LIST, [row], flow_style=False))
        data: bytes = yaml.serialize(
            self._root,
            Dumper=yaml.SafeDumper,
            encoding="utf-8",
            allow_unicode=True,
            width=_NEVER_FOLD,
        )
        return data

    def _accounts(self) -> list[yaml.Node]:
        node = _get(self._root, keys.ACCOUNTS)
        return list(node.value) if isinstance(node, yaml.SequenceNode) else []

    def _others(self, access_key: str) -> list[yaml.Node]:
        return [one for one in self._accounts() if _key_of(one) != access_key]

    def _set_accounts(self, accounts: list[yaml.Node]) -> None:
        _set(self._root, keys.ACCOUNTS, yaml.SequenceNode(_LIST, accounts, flow_style=False))


def _key_of(account: yaml.Node) -> str | None:
    node = _get(account, keys.ACCESS_KEY)
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _get(mapping: yaml.Node, key: str) -> yaml.Node | None:
    """Return a value of a mapping; of a key that stands there twice the last one counts."""
    found = None
    for name, value in mapping.value:
        if name.value == key:
            found = value
    return found


def _set(mapping: yaml.Node, key: str, value: yaml.Node | None) -> None:
    """Set a value at its place, or at the end; the key stands there once then."""
    pairs = [(name, old) for name, old in mapping.value if name.value != key]
    place = next((n for n, (name, _) in enumerate(mapping.value) if name.value == key), len(pairs))
    pairs.insert(place, (yaml.ScalarNode(_TEXT, key), value))
    mapping.value = pairs


def _text(value: str | None, style: str | None = None) -> yaml.Node | None:
    return None if value is None else yaml.ScalarNode(_TEXT, value, style=style)


def _texts(values: Sequence[str] | None) -> yaml.Node | None:
    if values is None:
        return None
    return yaml.SequenceNode(_LIST, [_text(value) for value in values], flow_style=False)
