"""Units that stand for messages that are gone, in queues whose messages wait: they are nobody's.

Such a unit names the beginning of the log, where another message that waits may lie.
"""

from pathlib import Path

import pytest

from lanemq.storage import Store, Unit
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.wire import RequestCode, SystemTopic

GONE = [Unit(0, 0, 0), Unit(0, 2147483647, 0)]
WAITING: dict[str, tuple[str, dict[str, str]]] = {
    "delayed": (SystemTopic.SCHEDULE, {"DELAY": "1"}),
    "timer": (SystemTopic.TIMER, {"TIMER_DELAY_SEC": "1"}),
    "half": (SystemTopic.TRANSACTION_HALF, {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "u"}),
}


def dig_holes(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """Let the units of a topic's queues, from the second on, be those of messages that are gone."""
    real_units = Store.units

    def units(store: Store, name: str, queue_id: int, start: int, count: int) -> list[Unit]:
        found = real_units(store, name, queue_id, start, count)
        if name != topic:
            return found
        return [unit if at == 0 else GONE[at % 2] for at, unit in enumerate(found, start)]

    monkeypatch.setattr(Store, "units", units)


@pytest.mark.parametrize("kind", WAITING)
async def test_a_hole_is_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    topic, properties = WAITING[kind]
    clock = StandingClock()
    async with open_test_broker(tmp_path, now_ms=clock) as broker:
        client = broker.connect()
        dig_holes(monkeypatch, topic)
        flags = 4 if kind == "half" else 0
        for body in b"at the log's beginning", b"gone", b"gone":
            sent = await client.send("T", body, properties, sys_flag=flags)
            assert sent.code == 0, sent.remark
        assert (await client.heartbeat("c", producers=("p",))).code == 0
        clock.ms += 7000
        await broker.broker.clock_moved()
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        delivered = [one.body for one in await client.all_messages("T")]
        asked = [frame for frame in client.pushed if b"at the log's beginning" in frame.body]
        assert (delivered, len(asked)) == (
            ([], 1) if kind == "half" else ([b"at the log's beginning"], 0)
        )


@pytest.mark.parametrize("unit", GONE)
async def test_such_a_unit_has_no_record(tmp_path: Path, unit: Unit) -> None:
    async with open_test_broker(tmp_path) as broker:
        assert (await broker.connect().send("T", b"x")).code == 0
        store = broker.context.store
        (real,) = store.units("T", 0, 0, 1)
        assert real.has(store.record_at(real.log_position))
        assert not unit.has(store.record_at(unit.log_position))
