"""Generated from lanemq.sdk.kv._watch by sdk/tools/generate_faces.py."""

from typing import final

from lanemq.wire.kv import Change

from ...kv import _watch as _core
from .._bridge import Bridge


@final
class Watch:
    """The changes under a prefix, from a position on; none is left out. Made by ``watch``.

    It waits for changes with a request at a time to each partition, goes on after a broker was
    away, and costs nothing while nobody reads it. ``for`` gives one change after another,
    without an end; those of a partition are in its order.
    """

    def __init__(self, core: _core.Watch, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def position(self) -> int | tuple[int, ...] | None:
        """The position to go on from, for another ``watch``; None before the first change.

        Of a change of a batch it is that of the whole batch, whose other changes come again. Of
        several partitions it has the position of each.
        """
        return self._core.position

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Change:
        """Return the next change, as soon as there is one.

        Raises ``KvCompacted`` where it is not known any more, ``KvRejected`` where it was not
        given a position for each partition, and as ``KeyValueStore.get``.
        """
        return self._bridge.take(self._core._give_back, self._core.__anext__)
