"""A record of the log is a message where its queue says so; what a body holds is none."""

import pytest
from msgspec.structs import replace

from lanemq.storage import Unit
from lanemq.storage.messages._queued import is_queued
from lanemq.testkit.storage.stores import MakeMessage, OpenSmall
from lanemq.wire.message import decode_message, encode_message

HEAD_BYTES = 88


@pytest.mark.parametrize("slot", [0, 1, 7, 1 << 40])
async def test_a_record_in_a_body_is_not_queued(
    open_small: OpenSmall, make_message: MakeMessage, slot: int
) -> None:
    async with open_small() as store:
        first = store.put(make_message(b"first"))
        store.commit()
        message = store.message_at(first.log_position, queued=True)
        assert message is not None
        position = first.end + HEAD_BYTES
        forged = replace(message, log_position=position, queue_offset=slot)
        holder = store.put(make_message(encode_message(forged)))
        store.commit()
        assert store.record_at(position) == encode_message(forged)
        assert store.record_at(position, queued=True) is None
        assert store.message_at(position, queued=True) is None
        assert store.record_at(holder.log_position, queued=True) is not None


async def test_every_message_is_queued_until_its_topic_is_deleted(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        puts = [store.put(make_message(b"%d" % number)) for number in range(40)]
        store.commit()
        for put in puts:
            assert store.record_at(put.log_position, queued=True) is not None
        store.delete_topic("T")
        for put in puts:
            assert store.record_at(put.log_position) is not None
            assert store.record_at(put.log_position, queued=True) is None


class ShiftedQueue:
    """A queue that has its messages ``shift`` slots from where their records say, with a gap."""

    def __init__(self, positions: list[int], shift: int) -> None:
        self.min = shift
        self.end = shift + len(positions)
        self._units = {
            shift + number: Unit(position, 1, 0)
            for number, position in enumerate(positions)
            if number != 5
        }

    def unit(self, offset: int) -> Unit | None:
        return self._units.get(offset)

    def unit_from(self, offset: int) -> tuple[int, Unit] | None:
        later = [one for one in self._units if one >= offset]
        return (min(later), self._units[min(later)]) if later else None


@pytest.mark.parametrize("shift", [0, 1, 3, 100])
async def test_a_message_in_a_shifted_slot_is_found(
    open_small: OpenSmall, make_message: MakeMessage, shift: int
) -> None:
    async with open_small() as store:
        puts = [store.put(make_message(b"%d" % number)) for number in range(20)]
        store.commit()
        queue = ShiftedQueue([put.log_position for put in puts], shift)
        for number, put in enumerate(puts):
            record = store.record_at(put.log_position)
            assert record is not None
            assert decode_message(record).queue_offset == number
            found = is_queued(record, put.log_position, queue)  # type: ignore[arg-type]
            assert found is (number != 5)
            assert not is_queued(record, put.log_position + 1, queue)  # type: ignore[arg-type]


async def test_a_written_message_is_queued_before_anybody_may_read_it(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        puts = [store.put(make_message(b"%d" % number)) for number in range(3)]
        store.write()
        assert store.bounds("T", 0) == (0, 0)
        for put in puts:
            assert store.record_at(put.log_position, queued=True) is not None
            assert store.record_at(put.log_position + HEAD_BYTES, queued=True) is None
        store.dispatch()
        assert store.bounds("T", 0) == (0, 3)
