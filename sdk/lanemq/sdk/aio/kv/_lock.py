"""Generated from lanemq.sdk.kv._lock by sdk/tools/generate_faces.py."""

from typing import final

from lanemq.wire.kv import Step

from ...kv import _lock as _core
from .._bridge import Bridge


@final
class Lock:
    """A lock that is held, as far as its holder can know. Made by ``lock`` and ``leader``."""

    def __init__(self, core: _core.Lock, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.key: bytes = core.key
        """The key of the entry that is the lock."""
        self.fencing: int = core.fencing
        """A number that goes with the lock: every later holder has a higher one.

        In a namespace of one partition, so has every later holder of any lock there. Whoever is
        asked on behalf of the lock can refuse a lower number than the highest seen.
        """
        self.check: Step = core.check
        """A condition for a batch: its other steps are done only while the lock is held.

        In a namespace of several partitions, their keys have to be in that of the lock.
        """

    @property
    def is_held(self) -> bool:
        """True while it is held: it was renewed in time, and nobody removed it."""
        return self._core.is_held
