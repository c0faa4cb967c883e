"""A checkpoint: a small value that one worker saves again and again."""

from typing import Final, final

from lanemq.wire.kv import KEY_BYTES_MAX, Action, OpType, Step, encode_steps

from .._values import check_text
from .requests._calls import KvCalls
from .requests._errors import CheckpointMoved, KvRejected

PREFIX: Final = b"checkpoint/"


@final
class Checkpoint:
    """A value under ``checkpoint/NAME``, saved by one worker at a time. Made by ``checkpoint``.

    A worker that was replaced, and does not know it, cannot overwrite what its successor saved.
    """

    def __init__(self, calls: KvCalls, name: str) -> None:
        self._calls = calls
        self.name: str = name
        """Its name."""
        check_text(
            "the name of a checkpoint", name, most_bytes=KEY_BYTES_MAX - 100, error=KvRejected
        )
        self._key = PREFIX + name.encode()
        self._version: int | None = None

    async def load(self) -> bytes | None:
        """Return the value that was saved last; None before the first.

        A namespace that is missing is made first, since it may be another broker's that is down:
        what cannot be read is not nothing. Raises as ``KeyValueStore.put``.
        """
        entry = await self._calls.sure_entry(self._key)
        self._version = entry.version if entry is not None else 0
        return entry.value if entry is not None else None

    async def save(self, value: bytes) -> None:
        """Replace the value that this worker loaded or saved last; without either, load first.

        Raises ``CheckpointMoved`` where somebody else saved meanwhile, and as
        ``KeyValueStore.put``.
        """
        if self._version is None:
            await self.load()
        step = Step(self._key, Action.PUT, value, if_version=self._version)
        answer = await self._calls.write(self._key, OpType.CAS, encode_steps([step]))
        if not answer.done:
            raise CheckpointMoved(self.name, answer.results[0].version)
        self._version = answer.results[0].version
