"""The report of a repair."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from ..checks._findings import Part
from ..checks._verify import VerifyReport
from ..reading._index_sizes import IndexSizes
from ._losses import Loss


@final
@dataclass(frozen=True, slots=True)
class Action:
    """A step that a repair takes, or would take."""

    part: Part
    what: str
    count: int
    """Number of queues, files or bytes."""


@final
@dataclass(slots=True)
class RepairReport:
    """The report of a repair."""

    before: VerifyReport
    actions: list[Action] = field(default_factory=list)
    is_dry: bool = False
    backup: Path | None = None
    """The directory of everything that was replaced or cut; None where nothing was."""
    after: VerifyReport | None = None
    """The result of the same checks after the repair; None where nothing was done."""
    losses: list[Loss] = field(default_factory=list)
    """Messages that can be read now, and that the rebuilt indexes would not lead to."""
    default_levels: list[int] = field(default_factory=list)
    """Delay levels of rebuilt queues for which the default delay was assumed."""
    default_index_sizes: IndexSizes | None = None
    """Sizes of a rebuilt key index, where the defaults were assumed."""
    allow_loss: bool = False
    """True if the losses were accepted; otherwise the index entries of these messages were left
    alone."""

    @property
    def is_sound(self) -> bool:
        """True if nothing is left to be done."""
        return (self.after or self.before).is_sound
