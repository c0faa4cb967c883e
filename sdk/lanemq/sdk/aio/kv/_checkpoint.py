"""Generated from lanemq.sdk.kv._checkpoint by sdk/tools/generate_faces.py."""

from typing import final

from ...kv import _checkpoint as _core
from .._bridge import Bridge


@final
class Checkpoint:
    """A value under ``checkpoint/NAME``, saved by one worker at a time. Made by ``checkpoint``.

    A worker that was replaced, and does not know it, cannot overwrite what its successor saved.
    """

    def __init__(self, core: _core.Checkpoint, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.name: str = core.name
        """Its name."""

    async def load(self) -> bytes | None:
        """Return the value that was saved last; None before the first.

        A namespace that is missing is made first, since it may be another broker's that is down:
        what cannot be read is not nothing. Raises as ``KeyValueStore.put``.
        """
        return await self._bridge.call(self._core.load)

    async def save(self, value: bytes) -> None:
        """Replace the value that this worker loaded or saved last; without either, load first.

        Raises ``CheckpointMoved`` where somebody else saved meanwhile, and as
        ``KeyValueStore.put``.
        """
        await self._bridge.call(self._core.save, value)
