"""Messages that waited, and go into light queues when they are due."""

from pathlib import Path

import pytest

from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import open_test_broker, send_header
from lanemq.wire import RequestCode

ODD = "INNER_MULTI_DISPATCH\1%LMQ%odd\1x\2\1no name\2no value\2K\1v\1w\2"
"""Properties that no broker writes, whose bytes are kept as they came."""


@pytest.mark.parametrize("waits", ["DELAY\0011\2", "TIMER_DELAY_SEC\0011\2"])
async def test_no_properties_of_a_message_keep_others_waiting(tmp_path: Path, waits: str) -> None:
    clock = StandingClock()
    async with open_test_broker(
        tmp_path, now_ms=clock, enable_lmq=True, enable_multi_dispatch=True
    ) as broker:
        client = broker.connect()
        for body, properties in ((b"odd", ODD + waits), (b"plain", waits)):
            letters = send_header("T", properties).to_letters()
            assert (await client.call(RequestCode.SEND_MESSAGE_V2, letters, body)).code == 0
        clock.ms += 7000
        await broker.broker.clock_moved()
        await client.call(RequestCode.HEART_BEAT, body=b"{}")
        assert [one.body for one in await client.all_messages("T")] == [b"odd", b"plain"]
        assert broker.context.store.bounds("%LMQ%odd\1x", 0) == (0, 1)
