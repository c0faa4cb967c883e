"""The size and the depth of a JSON value whose branches are shared.

Some hundred bytes of references may stand for any amount of text, and for a value without end.
Both have to be found out before such a value is walked, kept or written.
"""

from typing import NamedTuple, final

from .._errors import RemoteProtocolError

_SCALAR_CHARACTERS = 8
"""Characters that a value counts for beside those of its text; so much for a number, too."""


class _Size(NamedTuple):
    characters: int
    levels: int
    """Nesting depth in arrays and objects, itself included."""


@final
class Expansion:
    """Measures values as if they were written out; a branch is walked once, however often shared.

    Characters are an estimate: those of texts and keys, and eight for each value.
    """

    def __init__(self, *, max_depth: int, max_characters: int) -> None:
        self._max_depth = max_depth
        self._max_characters = max_characters
        self._characters = 0
        self._known: dict[int, _Size | None] = {}  # by identity; None while it is being walked

    def check(self, root: object) -> None:
        """Measure ``root``. Raises ``RemoteProtocolError`` for one too large or without end.

        Its containers must stay alive, and as they are, for as long as ``add`` is called.
        """
        self.count(self._size(root, 0).characters)

    def add(self, branch: object) -> None:
        """Count a branch of the root once more. Raises ``RemoteProtocolError``."""
        self.count(self._size(branch, 0).characters)

    def count(self, characters: int) -> None:
        """Count what was written out. Raises ``RemoteProtocolError``."""
        self._characters += characters
        if self._characters > self._max_characters:
            raise RemoteProtocolError(
                f"JSON of more than {self._max_characters} characters, were its references "
                "written out"
            )

    def _size(self, value: object, above: int) -> _Size:
        if isinstance(value, str):
            return _Size(len(value) + _SCALAR_CHARACTERS, 0)
        if not isinstance(value, dict | list):
            return _Size(_SCALAR_CHARACTERS, 0)
        if id(value) in self._known:
            known = self._known[id(value)]
            if known is None:
                raise RemoteProtocolError("JSON: a reference makes a value that contains itself")
            if above + known.levels > self._max_depth:
                raise self._too_deep()
            return known
        if above >= self._max_depth:
            raise self._too_deep()
        self._known[id(value)] = None
        characters, levels = _SCALAR_CHARACTERS, 0
        if isinstance(value, dict):
            characters += sum(len(key) for key in value if isinstance(key, str))
        for child in value.values() if isinstance(value, dict) else value:
            size = self._size(child, above + 1)
            characters += size.characters
            levels = max(levels, size.levels)
        measured = self._known[id(value)] = _Size(characters, levels + 1)
        return measured

    def _too_deep(self) -> RemoteProtocolError:
        return RemoteProtocolError(f"JSON nests deeper than {self._max_depth} levels")
