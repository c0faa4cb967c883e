"""Replace fastjson's ``{"$ref": ...}`` by the object it stands for.

A path from the root is ``$``, then ``.name`` and ``[index]`` steps, a backslash before a
character that would end a name. ``@`` would be the object or array that holds the reference,
``..`` the one that holds that: fastjson writes them for a value that contains itself only, which
no body is.
Source: fastjson 1.2.x, JSONSerializer.writeReference and SerialContext.toString.
"""

import re
import sys
from typing import final

import msgspec

from .._errors import RemoteProtocolError
from ._expansion import Expansion

_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[([0-9]+)\]", re.DOTALL)
_MAX_HOPS = 100  # references to references; more is a ring
_INDEX_DIGITS = 9
_ABOVE = ("@", "..")  # what holds the reference, and what holds that


@final
class RefKey:
    """An object key that is itself a reference: its text is known only when all is read."""

    __slots__ = ("reference",)

    def __init__(self, reference: dict[object, object]) -> None:
        self.reference = reference


def resolve(root: object, *, max_depth: int, max_characters: int) -> object:
    """Return ``root`` with every reference replaced, in place where it can be.

    The value is a tree that may share branches: written out it nests no deeper than
    ``max_depth`` levels and takes about ``max_characters`` at most, and so many characters of
    paths are followed at most. Raises ``RemoteProtocolError`` for one that is larger, for a path
    that leads nowhere, for a ring of references, and for a value that contains itself.
    """
    steps = _Steps(max_characters)
    top: list[object] = [root]
    pending: list[object] = [top]
    keyed: list[dict[object, object]] = []
    found: list[tuple[object, object, str]] = []
    while pending:
        container = pending.pop()
        if isinstance(container, dict):
            items = list(container.items())
            if any(isinstance(key, RefKey) for key in container):
                keyed.append(container)
        else:
            assert isinstance(container, list)
            items = list(enumerate(container))
        for place, child in items:
            path = _path(child)
            if path is not None:
                found.append((container, place, path))
            elif isinstance(child, dict | list):
                pending.append(child)
    for container, place, path in found:
        container[place] = _target(top[0], path, steps)  # type: ignore[index] # its own place
    expansion = Expansion(max_depth=max_depth, max_characters=max_characters)
    expansion.check(top[0])
    for mapping in keyed:
        resolved = {
            _key_text(key, top[0], steps, expansion) if isinstance(key, RefKey) else key: value
            for key, value in mapping.items()
        }
        mapping.clear()
        mapping.update(resolved)
    return top[0]


@final
class _Steps:
    """Counts the characters of the paths that are followed."""

    def __init__(self, most: int) -> None:
        self._left = most

    def follow(self, path: str) -> None:
        self._left -= len(path)
        if self._left < 0:
            raise RemoteProtocolError("JSON: too many references")


def _path(value: object) -> str | None:
    if isinstance(value, dict) and len(value) == 1:
        path = value.get("$ref")
        if isinstance(path, str):
            return path
    return None


def _target(root: object, path: str, steps: _Steps) -> object:
    for _ in range(_MAX_HOPS):
        steps.follow(path)
        if path in _ABOVE:
            raise RemoteProtocolError("JSON: a reference makes a value that contains itself")
        target = root if path == "$" else _walk(root, path)
        further = _path(target)
        if further is None:
            return target
        path = further
    raise RemoteProtocolError(f"JSON: reference {path!r} never reaches a value")


def _walk(root: object, path: str) -> object:
    if not path.startswith("$"):
        raise RemoteProtocolError(f"JSON: reference {path!r} is not a path")
    value, at = root, 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise RemoteProtocolError(f"JSON: reference {path!r} is not a path")
        at = step.end()
        name = re.sub(r"\\(.)", r"\1", step[1]) if step[1] is not None else step[2]
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and (index := _index(step[2])) < len(value):
            value = value[index]
        else:
            raise RemoteProtocolError(f"JSON: reference {path!r} leads nowhere")
    return value


def _index(digits: str | None) -> int:
    """Return the number in brackets; ``sys.maxsize`` where it is missing or too long."""
    return int(digits) if digits is not None and len(digits) <= _INDEX_DIGITS else sys.maxsize


def _key_text(key: RefKey, root: object, steps: _Steps, expansion: Expansion) -> str:
    path = _path(key.reference)
    if path is None:
        raise RemoteProtocolError("JSON: a key has members beside its reference")
    target = _target(root, path, steps)
    expansion.add(target)  # before it is written: that may take long
    try:
        text = msgspec.json.encode(target).decode()
    except TypeError as error:  # a key of it is a reference that is not resolved yet
        raise RemoteProtocolError(f"JSON: key {path!r} names an object with such keys") from error
    expansion.count(len(text))  # keys of the target may have grown since it was measured
    return text
