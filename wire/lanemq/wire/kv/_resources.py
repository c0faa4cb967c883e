"""Names of keys as resources, which permissions and policies name and requests touch.

``%KV%NAMESPACE`` is all keys of a namespace, ``%KV%NAMESPACE/KEY`` one key, and
``%KV%NAMESPACE/BEGIN*`` every key that begins so. What rules do not write, but requests touch, is
``%KV%NAMESPACE/BEGIN to END``, the keys from one up to, but without, another, and
``%KV%NAMESPACE (any key)``. In the text of a key a backslash is doubled, and a byte that is no
printable ASCII character, a blank or an asterisk is ``\\x`` and two hexadecimal digits. (So one
text begins with another where, and only where, the key does.)
"""

import re
from typing import Final, NamedTuple, final

from .._errors import RemoteProtocolError
from .._names import KV_PREFIX
from ._names import NAME

ALL: Final = "*"
ANY_KEY: Final = " (any key)"
UP_TO: Final = " to "
_MARK: Final = "/"
_PLAIN: Final = frozenset(range(0x21, 0x7F)) - frozenset(b"\\*")
_TEXT_OF: Final = [chr(byte) if byte in _PLAIN else f"\\x{byte:02x}" for byte in range(256)]
_TEXT_OF[ord("\\")] = "\\\\"
_UNKNOWN: Final = re.compile(r"\\(?!x[0-9a-fA-F]{2})")


@final
class KeySpan(NamedTuple):
    """The keys of a namespace from ``begin`` up to, but without, ``end``; None is no end."""

    namespace: str
    begin: bytes
    end: bytes | None
    is_any: bool = False
    """True for any one of them, whichever."""


@final
class KeyRule(NamedTuple):
    """The keys of a permission or policy: one, or all that begin so."""

    key: bytes
    is_prefix: bool


def after_key(prefix: bytes) -> bytes | None:
    """Return the first key behind all that begin with a prefix; None where there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None


def key_text(key: bytes) -> str:
    """Write a key for the name of a resource."""
    return "".join([_TEXT_OF[byte] for byte in key])


def parse_key_text(text: str) -> bytes:
    """Read a key of a resource; other characters than ASCII are UTF-8.

    Raises ``ValueError`` for a backslash with nothing that it could mean.
    """
    if "\\" not in text:
        return text.encode()
    if _UNKNOWN.search(text.replace("\\\\", "/")):
        raise ValueError(
            f"{text!r} has a backslash before something else than a backslash, or x and two "
            "hexadecimal digits"
        )
    return text.encode().decode("unicode_escape").encode("latin-1")  # a byte is a character there


def all_keys(namespace: str) -> str:
    """Return the resource of all keys of a namespace, which is the topic of its log."""
    return KV_PREFIX + namespace


def any_key(namespace: str) -> KeySpan:
    """Return any key of a namespace: a right to one of them is enough."""
    return KeySpan(namespace, b"", None, is_any=True)


def one_key(namespace: str, key: bytes) -> KeySpan:
    """Return one key, alone."""
    return KeySpan(namespace, key, key + b"\0")


def keys_under(namespace: str, prefix: bytes) -> KeySpan:
    """Return all keys under a prefix; under an empty one that is all keys of the namespace."""
    return KeySpan(namespace, prefix, after_key(prefix))


def span_text(span: KeySpan) -> str:
    """Return the resource that a span of keys is."""
    name, begin, end, is_any = span
    whole = all_keys(name)
    if is_any:
        return whole + ANY_KEY
    if end is None and not begin:
        return whole
    text = whole + _MARK + key_text(begin)
    if end == begin + b"\0":
        return text
    if end == after_key(begin):
        return text + ALL
    return text + UP_TO + ("" if end is None else key_text(end))


def parse_span(resource: str) -> KeySpan | None:
    """Read what a request touches; None for the name of anything else."""
    if not resource.startswith(KV_PREFIX):
        return None
    namespace, mark, text = resource[len(KV_PREFIX) :].partition(_MARK)
    if not mark:
        name = namespace.removesuffix(ANY_KEY)
        return KeySpan(name, b"", None, name != namespace) if NAME.fullmatch(name) else None
    if not NAME.fullmatch(namespace):
        return None
    first, up_to, last = text.partition(UP_TO)
    try:
        if up_to:
            return KeySpan(namespace, parse_key_text(first), parse_key_text(last) or None)
        if text.endswith(ALL):
            begin = parse_key_text(text[: -len(ALL)])
            return KeySpan(namespace, begin, after_key(begin))
        key = parse_key_text(text)
    except ValueError:
        return None
    return KeySpan(namespace, key, key + b"\0")


def parse_rule(resource: str) -> tuple[str, KeyRule] | None:
    """Read what a rule names: namespace and keys; None for the name of anything else.

    Raises ``ValueError`` for keys that cannot be read.
    """
    namespace, mark, text = resource.removeprefix(KV_PREFIX).partition(_MARK)
    if not (resource.startswith(KV_PREFIX) and mark):
        return None
    if not NAME.fullmatch(namespace):
        raise ValueError(f"{namespace!r} is not the name of a namespace of keys")
    is_prefix = text.endswith(ALL)
    text = text.removesuffix(ALL)
    if ALL in text:
        raise ValueError(f"{text!r}: an asterisk stands at the end alone, or is written \\x2a")
    key = parse_key_text(text)
    if not (key or is_prefix):
        raise ValueError(f"{resource!r} names no key: {resource}* are all keys of the namespace")
    return namespace, KeyRule(key, is_prefix)


def rule_name(namespace: str, rule: KeyRule) -> str:
    """Return the name of a rule, of which there is one."""
    return all_keys(namespace) + _MARK + key_text(rule.key) + ALL * rule.is_prefix


def checked_namespace(namespace: str) -> str:
    """Return the name of a namespace. Raises ``RemoteProtocolError`` for one that is none."""
    if not NAME.fullmatch(namespace):
        raise RemoteProtocolError(f"{namespace!r} is not the name of a namespace of keys")
    return namespace
