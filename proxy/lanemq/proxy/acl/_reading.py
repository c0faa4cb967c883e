"""The text of an account file, read and checked.

Values are taken as they are written: a secret key of digits is these digits. Errors name the line
and the key, and never a value that may be secret. What Apache's brokers accept is accepted; where
it can hardly be meant there is a warning.

Source: RocketMQ 4.9.8, PlainPermissionManager.load, buildPlainAccessResource, PlainAccessConfig.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import yaml

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import DataVersion
from lanemq.wire.kv import parse_rule

from .._settings import ConfigError
from . import _keys as keys
from ._accounts import DENY, PERMISSIONS, Account
from ._addresses import AddressPattern, WhiteList, parse_patterns
from ._key_rules import checked_resource
from ._signature_check import SignatureCheck
from ._unheard_names import group_never_found, topic_never_found

_BOOLEANS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_NULL: Final = "tag:yaml.org,2002:null"
_KEY_OF_LINE: Final = re.compile(r"[\s\-{,]*([A-Za-z]+)\s*:")


@final
@dataclass(frozen=True, slots=True)
class AccountFile:
    """The contents of one file."""

    accounts: tuple[Account, ...]
    white_list: tuple[AddressPattern, ...]
    warnings: tuple[str, ...]
    """Remarks for the operator, each with its file and line."""
    version: DataVersion | None = None
    """The version that the last change by a tool left; None for a file that has none."""


def read_account_file(data: bytes, *, source: str) -> AccountFile:
    """Read a file; an empty one has no accounts. Raises ``ConfigError``, which names ``source``,
    the line and the key."""
    return _Reader(data, source).read()


def version_of(node: yaml.Node | None) -> DataVersion | None:
    """Read the version of a file, the first of a list; None where there is none that can be
    read."""
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        return None
    try:
        values = {key.value: int(value.value) for key, value in node.value[0].value}
        return DataVersion(values[keys.TIMESTAMP], values[keys.COUNTER])
    except (AttributeError, TypeError, ValueError, KeyError):
        return None


@final
class _Reader:
    """Reads one file from its nodes: they know their lines, and scalars are texts."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._source = source
        self._warnings: list[str] = []

    def read(self) -> AccountFile:
        root = self._parse()
        values = {} if root is None or root.tag == _NULL else self._mapping(root, keys.OF_FILE)
        patterns: list[AddressPattern] = []
        for node in self._sequence(values, keys.WHITE_ADDRESSES):
            patterns += self._patterns(node, keys.WHITE_ADDRESSES)
        accounts: dict[str, Account] = {}
        for node in self._sequence(values, keys.ACCOUNTS):
            account = self._account(node)
            if account.access_key in accounts:
                self._warn(
                    node,
                    keys.ACCESS_KEY,
                    f"{account.access_key} stands here twice: the first counts",
                )
            accounts.setdefault(account.access_key, account)
        return AccountFile(
            tuple(accounts.values()),
            tuple(patterns),
            tuple(self._warnings),
            version_of(values.get(keys.VERSION)),
        )

    def _parse(self) -> yaml.Node | None:
        try:
            return yaml.compose(self._data, Loader=yaml.SafeLoader)
        except yaml.composer.ComposerError as error:
            # The text of the error has the name after a * or &, which may be part of a secret.
            what = "no such anchor, or one twice: quote a value that begins with * or &"
            raise self._invalid_text(error.problem_mark.line, what) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = str(error.problem)
            if "tag" in problem:  # it may be part of a secret, too
                problem = "an unknown tag: quote a value that begins with !"
            raise self._invalid_text(mark.line if mark else 0, problem) from None
        except (yaml.YAMLError, RecursionError):
            line = self._data[: self._unreadable_at()].count(b"\n")
            raise self._invalid_text(line, "not a text in UTF-8 that YAML can hold") from None

    def _unreadable_at(self) -> int:
        try:
            self._data.decode()
        except UnicodeDecodeError as error:
            return error.start
        return 0

    def _invalid_text(self, line: int, what: str) -> ConfigError:
        """Return the error of a text that is not YAML, with the last key up to its line."""
        lines = self._data.decode(errors="replace").splitlines()
        for text in reversed(lines[: line + 1]):
            key = _KEY_OF_LINE.match(text)
            if key is not None and key[1] in (*keys.OF_FILE, *keys.OF_ACCOUNT):
                return ConfigError(f"{self._source}, line {line + 1}, {key[1]}: {what}")
        return ConfigError(f"{self._source}, line {line + 1}: {what}")

    def _account(self, node: yaml.Node) -> Account:
        values = self._mapping(node, keys.OF_ACCOUNT, where=keys.ACCOUNTS)
        for key in (keys.ACCESS_KEY, keys.SECRET_KEY):
            text = self._text(values, key)
            if text is None or len(text) < keys.CHARACTERS_LEAST:
                what = f"an account needs one of at least {keys.CHARACTERS_LEAST} characters"
                raise self._invalid(values.get(key, node), key, what)
        permissions: dict[str, int] = {}
        for key, prefix in ((keys.GROUPS, RETRY_PREFIX), (keys.TOPICS, "")):
            for entry in self._sequence(values, key):
                name, permission = self._permission_of(entry, key)
                self._check_name(entry, key, name)
                permissions[prefix + name] = permission
        patterns = (
            self._patterns(values[keys.WHITE_ADDRESS], keys.WHITE_ADDRESS)
            if keys.WHITE_ADDRESS in values
            else ()
        )
        return Account(
            access_key=self._text(values, keys.ACCESS_KEY) or "",
            signatures=SignatureCheck(self._text(values, keys.SECRET_KEY) or ""),
            white_list=WhiteList(patterns),
            is_admin=self._boolean(values, keys.ADMIN),
            default_topic_permission=self._default(values, keys.TOPIC_DEFAULT),
            default_group_permission=self._default(values, keys.GROUP_DEFAULT),
            permissions=permissions,
        )

    # Parts of the file

    def _mapping(
        self, node: yaml.Node, known: tuple[str, ...], *, where: str | None = None
    ) -> dict[str, yaml.Node]:
        """Return the values of a mapping by key; others than ``known`` are warned of."""
        if not isinstance(node, yaml.MappingNode):
            raise self._invalid(node, where, f"not keys with values, such as {known[0]}: …")
        values: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if key not in known:
                shown = key if key.isidentifier() else where
                self._warn(key_node, shown, f"not a key that is known here: {', '.join(known)}")
                continue
            if key in values:
                self._warn(key_node, key, "stands here twice: the last one counts")
            values[key] = value
        return values

    def _sequence(self, values: Mapping[str, yaml.Node], key: str) -> Iterator[yaml.Node]:
        node = values.get(key)
        if node is None or node.tag == _NULL:
            return
        if not isinstance(node, yaml.SequenceNode):
            raise self._invalid(node, key, "not a list, whose lines begin with a dash")
        yield from node.value

    def _text(self, values: Mapping[str, yaml.Node], key: str) -> str | None:
        node = values.get(key)
        return None if node is None or node.tag == _NULL else self._scalar(node, key)

    def _scalar(self, node: yaml.Node, key: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._invalid(node, key, "not a single value")
        return str(node.value)

    def _boolean(self, values: Mapping[str, yaml.Node], key: str) -> bool:
        text = self._text(values, key)
        if text is None:
            return False
        if text.lower() not in _BOOLEANS:
            raise self._invalid(values[key], key, f"must be true or false, not {text!r}")
        return _BOOLEANS[text.lower()]

    def _default(self, values: Mapping[str, yaml.Node], key: str) -> int:
        text = self._text(values, key)
        return DENY if text is None else self._permission(values[key], key, text)

    def _permission(self, node: yaml.Node, key: str, text: str) -> int:
        permission = PERMISSIONS.get(text.strip())
        if permission is None:
            names = ", ".join(PERMISSIONS)
            self._warn(node, key, f"{text.strip()!r} is not one of {names}, and counts as DENY")
            return DENY
        return permission

    def _permission_of(self, node: yaml.Node, key: str) -> tuple[str, int]:
        """Read ``name=permission``."""
        text = self._scalar(node, key)
        name, *permission = [part for part in text.split("=") if part] or [""]
        if not name.strip() or len(permission) != 1:
            raise self._invalid(
                node, key, f"{text!r} must be name=permission, such as shop=PUB|SUB"
            )
        try:
            name = checked_resource(name.strip())
        except ValueError as error:
            raise self._invalid(node, key, str(error)) from None
        return name, self._permission(node, key, permission[0])

    def _check_name(self, node: yaml.Node, key: str, name: str) -> None:
        """Warn of a name that no topic or group has."""
        if key == keys.GROUPS:
            why, rest = group_never_found(name), keys.GROUP_DEFAULT
        else:
            is_of_group = name.startswith(RETRY_PREFIX)
            why, rest = None if is_of_group else topic_never_found(name), keys.TOPIC_DEFAULT
        if why is None and "*" in name and parse_rule(name) is None:
            why = f"no name has a *, and {name!r} is no pattern"
        if why is not None:
            self._warn(node, key, f"{why}. It counts for nothing; {rest} is for all others")

    def _patterns(self, node: yaml.Node, key: str) -> tuple[AddressPattern, ...]:
        if node.tag == _NULL:
            return ()
        try:
            return parse_patterns(self._scalar(node, key))
        except ConfigError:
            raise
        except ValueError as error:
            raise self._invalid(node, key, str(error)) from None

    # Remarks

    def _invalid(self, node: yaml.Node, key: str | None, what: str) -> ConfigError:
        return ConfigError(self._remark(node, key, what))

    def _warn(self, node: yaml.Node, key: str | None, what: str) -> None:
        self._warnings.append(self._remark(node, key, what))

    def _remark(self, node: yaml.Node, key: str | None, what: str) -> str:
        where = "" if key is None else f", {key}"
        return f"{self._source}, line {node.start_mark.line + 1}{where}: {what}"
