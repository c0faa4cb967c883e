"""What keeps a tool from doing its work, beside the errors of a store."""

from pathlib import Path
from typing import final

from .._errors import StoreError


@final
class NotAStore(StoreError):  # noqa: N818 - a property of the directory
    """The directory is no store, or lacks what was asked for; the message says what to do."""

    def __init__(self, root: Path, why: str) -> None:
        super().__init__(f"{root}: {why}")
        self.root = root
