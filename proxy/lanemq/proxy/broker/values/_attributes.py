"""Attributes of topics and groups (5.x): their text in requests, and what they may be.

A request says what is to change: ``+name=value`` sets an attribute, ``-name`` removes it. They are
kept without the sign. Texts of refusals are Apache's; values that it takes and that would have no
effect here are refused with lanemq's own.

Source: RocketMQ 5.3.3, AttributeParser, AttributeUtil, TopicAttributes,
SubscriptionGroupAttributes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from lanemq.wire import INT64, LONG_MAX, Refused, ResponseCode, listed, read_number
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig

ADD: Final = "+"
DELETE: Final = "-"
MEMBER: Final = "attributes"
"""The member of a group's settings that has its attributes."""


class Attribute(NamedTuple):
    """An attribute that there is."""

    is_changeable: bool
    problem: Callable[[str], str | None]
    """Returns what is wrong with a value; None for a right one."""


def _one_of(*values: str, refused: Mapping[str, str] | None = None) -> Callable[[str], str | None]:
    """Make the check of a value that is one of a set, named in the order of Java's."""

    def problem(value: str) -> str | None:
        if value not in values:
            return f"value is not in set: [{', '.join(values)}]"
        return (refused or {}).get(value)

    return problem


def _reserve_time_problem(value: str) -> str | None:
    try:
        number = read_number(value, INT64)
    except ValueError:
        return f'For input string: "{value[:64]}"'
    return None if number >= -1 else f"value is not in range(-1, {LONG_MAX})"


_MIXED: Final = "MIXED message type is not supported."
MESSAGE_TYPE: Final = "message.type"
TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    MESSAGE_TYPE: Attribute(
        True,
        _one_of(
            # In the order in which 5.3.3 lists them.
            "UNSPECIFIED",
            "TRANSACTION",
            "FIFO",
            "MIXED",
            "DELAY",
            "NORMAL",
            refused={"MIXED": _MIXED},
        ),
    ),
    "queue.type": Attribute(
        False,
        _one_of(
            "SimpleCQ",
            "BatchCQ",
            refused={
                "BatchCQ": "queue.type=BatchCQ is not supported: this broker's consume queues have "
                "an entry for each message, so leave the attribute away, or use SimpleCQ"
            },
        ),
    ),
    "cleanup.policy": Attribute(
        False,
        _one_of(
            "DELETE",
            "COMPACTION",
            refused={
                "COMPACTION": "cleanup.policy=COMPACTION is not supported: this broker deletes "
                "messages by age alone, so leave the attribute away, or use DELETE; keys with "
                "values are what namespaces of keys are for"
            },
        ),
    ),
    "reserve.time": Attribute(True, _reserve_time_problem),
}
"""The attributes of topics. ``reserve.time`` is about tiered storage, and kept for others."""
GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}
"""The attributes of groups: 5.3.3 has none either."""


def parse_attributes(text: str) -> dict[str, str]:
    """Read changes, such as ``+message.type=FIFO,-reserve.time``; keys keep their sign.

    Raises ``ValueError``, and ``Refused`` as ``lanemq.wire.listed``.
    """
    changes: dict[str, str] = {}
    for part in listed("attributes", text, ",") if text else ():
        key, separator, value = part.partition("=")
        if separator:
            if ADD not in key or not value:
                raise ValueError(f"add/alter attribute format is wrong: {key}")
        elif DELETE not in key:
            raise ValueError(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise ValueError(f"key duplication: {key}")
        changes[key] = value.partition("=")[0]
    return changes


def altered(
    known: Mapping[str, Attribute],
    current: Mapping[str, str] | None,
    changes: Mapping[str, str],
) -> dict[str, str]:
    """Return attributes after some changes; ``current`` is None for what does not exist yet.

    Raises ``ValueError``, and nothing is changed then.
    """
    after = dict(current or {})
    seen: set[str] = set()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if not name or ADD in name or DELETE in name:
            raise ValueError("kv string format wrong.")
        if name in seen:
            raise ValueError(f"alter duplication key. key: {name}")
        seen.add(name)
        if current is None and sign != ADD:
            raise ValueError(f"only add attribute is supported while creating topic. key: {name}")
        if sign not in (ADD, DELETE):
            raise ValueError(f"wrong format key: {name}")
        if sign == DELETE and name not in after:
            raise ValueError(f"attempt to delete a nonexistent key: {name}")
        attribute = known.get(name)
        if attribute is None:
            raise ValueError(f"unsupported key: {name}")
        if current is not None and not attribute.is_changeable:
            raise ValueError(f"attempt to update an unchangeable attribute. key: {name}")
        if sign == DELETE:
            del after[name]
            continue
        problem = attribute.problem(value)
        if problem is not None:
            raise ValueError(problem)
        after[name] = value
    return after


def topic_attributes(old: TopicConfig | None, changes: str) -> dict[str, str] | None:
    """Return a topic's attributes after changes to its settings ``old``. Raises ``Refused``."""
    current = None if old is None else dict(old.attributes or {})
    try:
        return altered(TOPIC_ATTRIBUTES, current, parse_attributes(changes)) or None
    except ValueError as error:
        is_mixed = str(error) == _MIXED
        code = ResponseCode.INVALID_PARAMETER if is_mixed else ResponseCode.SYSTEM_ERROR
        raise Refused(code, str(error)) from error


def with_attributes(
    old: SubscriptionGroupConfig | None, new: SubscriptionGroupConfig
) -> SubscriptionGroupConfig:
    """Return a group's new settings with its attributes after the changes in them. Raises
    ``Refused``."""
    current = None if old is None else _texts(old.extra.get(MEMBER))
    try:
        after = altered(GROUP_ATTRIBUTES, current, _texts(new.extra.get(MEMBER)))
    except ValueError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
    extra = {name: value for name, value in new.extra.items() if name != MEMBER}
    return replace(new, extra=extra | {MEMBER: after} if after else extra)


def _texts(given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        return {}
    return {str(name): str(value) for name, value in given.items()}
