"""A checkpoint: a small value that one worker saves again and again."""

from typing import Final, final

import trio

from lanemq.wire.kv import KEY_BYTES_MAX, Action, Entry, OpType, Step, encode_steps

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
        self._unsure: set[bytes] = set()
        """The values of which one may have been saved over that version: the answer was lost."""
        self._saving = trio.Lock()

    async def load(self) -> bytes | None:
        """Return the value that was saved last; None before the first.

        A namespace that is missing is made first, since it may be another broker's that is down:
        what cannot be read is not nothing. Raises as ``KeyValueStore.put``.
        """
        async with self._saving:
            return await self._load()

    async def save(self, value: bytes) -> None:
        """Replace the value that this worker loaded or saved last; without either, load first.

        Where an earlier save raised, and its value is there all the same, that one is replaced.
        Raises ``CheckpointMoved`` where somebody else saved meanwhile, and as
        ``KeyValueStore.put``.
        """
        async with self._saving:
            if self._version is None:
                await self._load()
            while not await self._replace(value):
                found = await self._calls.sure_entry(self._key)
                if found is None or not self._may_be_own(found):
                    raise CheckpointMoved(self.name, 0 if found is None else found.version)
                self._note(found.version)

    async def _load(self) -> bytes | None:
        entry = await self._calls.sure_entry(self._key)
        self._note(0 if entry is None else entry.version)
        return None if entry is None else entry.value

    async def _replace(self, value: bytes) -> bool:
        """Put a value over the known version; returns False where that is no longer the version."""
        step = Step(self._key, Action.PUT, value, if_version=self._version)
        try:
            answer = await self._calls.write(self._key, OpType.CAS, encode_steps([step]))
        except BaseException:  # a cancellation among them
            self._unsure.add(bytes(value))
            raise
        if answer.done:
            self._note(answer.results[0].version)
        return answer.done

    def _may_be_own(self, entry: Entry) -> bool:
        """Return whether an entry is what a save left whose answer was lost.

        That save put one version more than it replaced; a first one has any.
        """
        return entry.value in self._unsure and self._version in (0, entry.version - 1)

    def _note(self, version: int) -> None:
        if version != self._version:  # over the same one, a save may still be under way
            self._unsure.clear()
        self._version = version
