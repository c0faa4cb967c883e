"""Foreign text as people may read it: in logs, on terminals, in the texts of errors.

Peers choose names, remarks, properties and bodies. Their line breaks forge lines of a log, their
control characters command a terminal, and marks for the direction of text reorder what is read.
So all of these are escaped, and what is long is cut.
"""

from typing import Final

SHOWN_MAX: Final = 1000
"""Characters of one foreign text in a log or an error."""
LINE_MAX: Final = 1 << 16
"""Characters of one line of a command's output."""
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def show_text(text: str, limit: int | None = SHOWN_MAX) -> str:
    """Return text in one line that is safe to show, of about ``limit`` characters.

    Line breaks, control and format characters (also those that change the direction of text),
    lone surrogates, and characters that Unicode does not know become escapes, such as ``\\n``,
    ``\\x1b`` and ``\\u202e``. Everything else stays, also backslashes, so the form is for people;
    programs take JSON. A long text loses its middle. ``limit`` None: all of it.
    """
    if limit is not None and len(text) > limit:
        tail = limit // 4  # where errors say what to do
        head, left_out = limit - tail, len(text) - limit
        end = text[-tail:] if tail else ""
        return f"{_escaped(text[:head])}… ({left_out} more characters) …{_escaped(end)}"
    return _escaped(text)


def show_bytes(data: bytes, limit: int | None = SHOWN_MAX) -> str:
    """Return bytes as ``show_text`` shows them; those that are not UTF-8 become ``\\xff``."""
    if limit is not None and len(data) > limit:
        cut = data[:limit].decode("utf-8", "backslashreplace")
        return f"{_escaped(cut)}… ({len(data) - limit} more bytes)"
    return _escaped(data.decode("utf-8", "backslashreplace"))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or _is_space(one) else _escape(one) for one in text)


def _is_space(character: str) -> bool:
    return character in "\u00a0\u2007\u202f\u3000"  # blanks of a width, as Chinese texts have them


def _escape(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show_json(text: str) -> str:
    """Return a JSON text whose strings have escapes for what ``show_text`` would escape.

    The value is exactly the same. Line breaks between values stay.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" or _is_space(one) else _json_escape(one)
        for one in text
    )


def _json_escape(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
