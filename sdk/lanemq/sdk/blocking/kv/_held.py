"""Generated from lanemq.sdk.kv by sdk/tools/generate_faces.py."""

from typing import final

from lanemq.wire.kv import Change, LeaseStatus, Step

from ...kv import _checkpoint as _core_checkpoint
from ...kv import _lease as _core_lease
from ...kv import _lock as _core_lock
from ...kv import _observe as _core_observe
from ...kv import _watch as _core_watch
from ...kv._observe import LeaderSeen
from .._bridge import Bridge


@final
class Checkpoint:
    """A value under ``checkpoint/NAME``, saved by one worker at a time. Made by ``checkpoint``.

    A worker that was replaced, and does not know it, cannot overwrite what its successor saved.
    """

    def __init__(self, core: _core_checkpoint.Checkpoint, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.name: str = core.name
        """Its name."""

    def load(self) -> bytes | None:
        """Return the value that was saved last; None before the first.

        A namespace that is missing is made first, since it may be another broker's that is down:
        what cannot be read is not nothing. Raises as ``KeyValueStore.put``.
        """
        return self._bridge.call(self._core.load)

    def save(self, value: bytes) -> None:
        """Replace the value that this worker loaded or saved last; without either, load first.

        Where an earlier save raised, and its value is there all the same, that one is replaced.
        Raises ``CheckpointMoved`` where somebody else saved meanwhile, and as
        ``KeyValueStore.put``.
        """
        self._bridge.call(self._core.save, value)


@final
class Lease:
    """A lease that is held, as far as its holder can know. Made by ``lease``.

    It is kept alive by itself, until its block ends: then it is revoked, and its keys are gone.
    """

    def __init__(self, core: _core_lease.Lease, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.id: int = core.id
        """Its number, for ``lease=`` of a store's methods and of operations."""
        self.ttl_s: float = core.ttl_s
        """Seconds that it lasts without being kept alive."""

    @property
    def is_held(self) -> bool:
        """True while it is held, as far as this process knows: it was kept alive in time.

        False at the latest when its ttl is over, which is before anybody else has what is under
        it. That somebody revoked it shows at the next renewal, after a third of the ttl.
        """
        return self._core.is_held

    def wait_until_lost(self) -> None:
        """Return when it is no longer held; at the end of its block at the latest."""
        self._bridge.call(self._core.wait_until_lost)

    def status(self) -> LeaseStatus:
        """Return the time that is left, and the keys under it.

        Raises ``NoLease`` if it has ended, and as ``KeyValueStore.get``.
        """
        return self._bridge.call(self._core.status)

    def keep_alive(self) -> None:
        """Let its whole time begin again now, besides what is done by itself.

        Raises ``NoLease`` if it has ended, and as ``KeyValueStore.put``.
        """
        self._bridge.call(self._core.keep_alive)


@final
class Lock:
    """A lock that is held, as far as its holder can know. Made by ``lock`` and ``leader``."""

    def __init__(self, core: _core_lock.Lock, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.key: bytes = core.key
        """The key of the entry that is the lock."""
        self.fencing: int = core.fencing
        """A number that goes with the lock, from 1: every later holder has a higher one.

        In a namespace of one partition, so has every later holder of any lock there. Whoever is
        asked on behalf of the lock can refuse a lower number than the highest seen. Numbers of
        writes that a broker with ASYNC_FLUSH has lost with the power are given again.
        """
        self.check: Step = core.check
        """A condition for a batch: its other steps are done only while the lock is held.

        In a namespace of several partitions, their keys have to be in that of the lock.
        """

    @property
    def is_held(self) -> bool:
        """True while it is held, as far as this process knows: its lease was kept alive in time.

        False at the latest when the lease's ttl is over, which is before anybody else has it. That
        somebody removed the key, or revoked the lease, shows up to a third of the ttl later:
        ``check`` and ``fencing`` are for what may not be done without it.
        """
        return self._core.is_held


@final
class Leaders:
    """The leaders of a name: the present one, and then each change. Made by ``observe``.

    ``for`` gives one after another, without an end, over restarts of the broker. Where
    more has changed than brokers remember, the latest one comes next.
    """

    def __init__(self, core: _core_observe.Leaders, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    def __iter__(self) -> "Leaders":
        return self

    def __next__(self) -> LeaderSeen:
        """Return the next one, as soon as there is one.

        A namespace that is missing is made, if it may be. Raises as ``KeyValueStore.put``.
        """
        return self._bridge.take(self._core._give_back, self._core.__anext__)


@final
class Watch:
    """The changes under a prefix, from a position on; none is left out. Made by ``watch``.

    It waits for changes with a request at a time to each partition, goes on after a broker was
    away, and costs nothing while nobody reads it. ``for`` gives one change after another,
    without an end; those of a partition are in its order.
    """

    def __init__(self, core: _core_watch.Watch, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def position(self) -> int | tuple[int, ...] | None:
        """The position to go on from, for another ``watch``; of a watch from now, None until its
        first answer.

        Of a change of a batch it is that of the whole batch, whose other changes come again. Of
        several partitions it has the position of each.
        """
        return self._core.position

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Change:
        """Return the next change, as soon as there is one.

        Raises ``KvCompacted`` where it is no longer known, ``KvRejected`` where it was not
        given a position for each partition, and as ``KeyValueStore.get``.
        """
        return self._bridge.take(self._core._give_back, self._core.__anext__)
