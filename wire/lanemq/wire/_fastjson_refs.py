"""Replace fastjson's ``{"$ref": ...}`` by the object it stands for.

A path from the root is ``$``, then ``.name`` and ``[index]`` steps, a backslash before a
character that would end a name. ``@`` is the object or array that holds the reference, ``..``
the one that holds that.
Source: fastjson 1.2.x, JSONSerializer.writeReference and SerialContext.toString.
"""

import re
from typing import final

import msgspec

from ._errors import RemoteProtocolError

_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]", re.DOTALL)
_MAX_HOPS = 100  # references to references; more is a ring


@final
class RefKey:
    """An object key that is itself a reference: its text is known only when all is read."""

    __slots__ = ("reference",)

    def __init__(self, reference: dict[object, object]) -> None:
        self.reference = reference


def resolve(root: object) -> object:
    """Return ``root`` with every reference replaced, in place where it can be.

    Raises ``RemoteProtocolError`` for a path that leads nowhere and for a ring of references.
    """
    top: list[object] = [root]
    # (container, its holders from the root down, itself included)
    pending: list[tuple[object, tuple[object, ...]]] = [(top, ())]
    keyed: list[tuple[dict[object, object], tuple[object, ...]]] = []
    found: list[tuple[object, object, str, tuple[object, ...]]] = []
    while pending:
        container, above = pending.pop()
        holders = (*above, container) if container is not top else ()
        if isinstance(container, dict):
            items = list(container.items())
            if any(isinstance(key, RefKey) for key in container):
                keyed.append((container, holders))
        else:
            assert isinstance(container, list)
            items = list(enumerate(container))
        for place, child in items:
            path = _path(child)
            if path is not None:
                found.append((container, place, path, holders))
            elif isinstance(child, dict | list):
                pending.append((child, holders))
    for container, place, path, holders in found:
        container[place] = _target(top[0], path, holders)  # type: ignore[index]
    for mapping, holders in keyed:
        items = list(mapping.items())
        mapping.clear()
        for key, value in items:
            mapping[_key_text(key, top[0], holders) if isinstance(key, RefKey) else key] = value
    return top[0]


def _path(value: object) -> str | None:
    if isinstance(value, dict) and len(value) == 1:
        path = value.get("$ref")
        if isinstance(path, str):
            return path
    return None


def _target(root: object, path: str, holders: tuple[object, ...]) -> object:
    for _ in range(_MAX_HOPS):
        if path == "$":
            target = root
        elif path == "@" and len(holders) >= 1:
            target = holders[-1]
        elif path == ".." and len(holders) >= 2:
            target = holders[-2]
        else:
            target = _walk(root, path)
        further = _path(target)
        if further is None:
            return target
        if further in ("@", ".."):
            break
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
        elif isinstance(value, list) and step[2] is not None and int(name) < len(value):
            value = value[int(name)]
        else:
            raise RemoteProtocolError(f"JSON: reference {path!r} leads nowhere")
    return value


def _key_text(key: RefKey, root: object, holders: tuple[object, ...]) -> str:
    path = _path(key.reference)
    if path is None:
        raise RemoteProtocolError("JSON: a key has members beside its reference")
    try:
        return msgspec.json.encode(_target(root, path, holders)).decode()
    except (TypeError, RecursionError) as error:
        raise RemoteProtocolError(f"JSON: key {path!r} contains itself") from error
