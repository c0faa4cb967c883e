"""Brokers that are drained behind a proxy, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio
from click.testing import CliRunner

from lanemq.proxy.gateway.kv import LOGS
from lanemq.sdk import Message, Producer, open_producer
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S
from lanemq.wire.bodies import MessageQueue

from .moves import A, B, Stand

QUEUES: Final = 4
"""Queues of topic T, two of each broker."""


async def sides(at: Stand) -> tuple[str, str]:
    """Return the broker that has the log of orders, and the other one, which can go."""
    async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
        (kept,) = set((await admin.values(LOGS)).values())
    return kept, B if kept == A else A


async def command(*words: str) -> str:
    """Run an administrator's command, and return what it shows."""
    runner = CliRunner()
    shown = await trio.to_thread.run_sync(partial(runner.invoke, admin_command, words))
    assert shown.exit_code == 0, shown.output
    return shown.output


@asynccontextmanager
async def sending(at: Stand) -> AsyncIterator[Producer]:
    async with open_producer("p", name_servers=at.address, options=PATIENT_PRODUCER) as producer:
        yield producer


async def send(producer: Producer, bodies: range) -> None:
    """Send messages to all queues in turn."""
    for number in bodies:
        queue = MessageQueue("T", (A, B)[number % QUEUES // 2], number % 2)
        found = await producer.send(Message(topic="T", body=f"{number}".encode()), queue=queue)
        assert found.queue == queue
