"""Timers of the Java client 5.3.3: the same at lanemq's broker as at Apache's 5.3.3."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client
from lanemq.compat._errors import CommandRefused
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._clusters import TEST_SETTINGS, apache_cluster, lanemq_cluster, running
from lanemq.testkit.servers import now_ms

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

SETTINGS = {"timerWheelEnable": "true", "recallMessageEnable": "true"}
SOON_MS = 15_000
WITHIN_S = 90.0
"""Far more than it takes: the machine may be busy."""


@pytest.mark.parametrize("server", ["apache-5.3.3", "lanemq"])
async def test_messages_of_a_java_client_come_at_their_time_and_can_be_recalled(
    server: str, tmp_path: Path
) -> None:
    if server == "lanemq":
        cluster = lanemq_cluster(tmp_path, settings={**TEST_SETTINGS, **SETTINGS})
    else:
        make = partial(apache_cluster, "5.3.3", tmp_path, settings={**TEST_STORE, **SETTINGS})
        cluster = await trio.to_thread.run_sync(make)
    async with (
        running(cluster, graceful=False),
        open_client("java-5.3.3", tmp_path / "client") as driver,
    ):
        cell = Cell("timers", driver, cluster)
        topic = await cell.topic()
        async with cell.consumer(topic) as consumer, cell.producer() as producer:

            async def send(body: bytes, **timer: int) -> Any:  # noqa: ANN401 - JSON
                message = Outgoing(topic, body, tags="TagA", keys="key")
                return await driver.call(
                    "send_timed", producer=producer.name, message=message, **timer
                )

            begun_ms = now_ms()
            at_ms = begun_ms + SOON_MS
            await send(b"past", deliver_ms=begun_ms - 1000)
            await send(b"at", deliver_ms=at_ms)
            await send(b"milliseconds", delay_ms=SOON_MS)
            await send(b"seconds", delay_s=SOON_MS // 1000)
            gone = await send(b"gone", deliver_ms=at_ms)
            recalled = await driver.call(
                "recall", producer=producer.name, topic=topic, handle=gone["recall_handle"]
            )
            assert recalled == gone["message_id"]
            with pytest.raises(CommandRefused, match="timer message illegal"):
                await send(b"too far", delay_s=3 * 24 * 3600 + 60)
            await send(b"last", delay_ms=SOON_MS + 3000)
            wanted = {b"at", b"last", b"milliseconds", b"past", b"seconds"}
            await consumer.until(
                "all messages, and the last",
                lambda: wanted <= set(consumer.bodies),
                within_s=WITHIN_S,
            )
            assert sorted(consumer.bodies) == sorted(wanted)
            for seen in consumer.consumed:
                if seen.body == b"past":
                    assert "TIMER_OUT_MS" not in seen.properties
                    continue
                assert seen.store_timestamp_ms >= begun_ms + SOON_MS
                expected = {"REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS"}
                expected |= {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
                assert expected <= set(seen.properties)
                assert (seen.topic, seen.tags, seen.keys) == (topic, "TagA", "key")
