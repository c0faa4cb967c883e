"""A start on a full disk ends with one line, and the next one with free space goes on."""

import pytest

from lanemq.storage import StoreError
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import MakeMessage, OpenSmall

MESSAGES = 20


async def killed(
    open_small: OpenSmall, files: SimulatedFiles, make_message: MakeMessage
) -> SimulatedFiles:
    """The disk as a kill leaves it."""
    async with open_small() as store:
        for _ in range(MESSAGES):
            store.put(make_message(bytes(300)))
        store.commit()
        return files.reboot("kill")


@pytest.mark.parametrize("space_bytes", [0, 1, 10, 100, 1000, 3000])
async def test_a_start_after_a_kill(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, space_bytes: int
) -> None:
    disk = await killed(open_small, files, make_message)
    disk.space_bytes = space_bytes
    try:
        async with open_small(disk) as store:
            assert store.bounds("T", 0) == (0, MESSAGES)
    except StoreError as error:
        assert str(error) == (  # noqa: PT017 - it may also open
            "the store in /store cannot be opened: No space left on device; "
            "free some space, then start again"
        )
    disk.space_bytes = None
    async with open_small(disk) as store:
        assert store.bounds("T", 0) == (0, MESSAGES)
        put = store.put(make_message())
        store.commit()
        assert put.queue_offset == MESSAGES


async def test_a_disk_that_is_too_full_is_seen_before_the_first_message(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small():
        pass
    files.used_ratio = 0.97
    async with open_small() as store:
        assert store.unwritable_reason == "the disk is full to 97%"
