"""Tell others about an order if, and only if, it is in the database.

The message is with the broker before the order is written, hidden from consumers, and delivered
once the order is there. If this process dies in between, the broker asks another of its group.
"""

import sqlite3
import sys
from collections.abc import Sequence
from functools import partial

import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    TransactionState,
    open_push_consumer,
    open_transaction_producer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "TransactionTopic"


async def main() -> None:
    database = sqlite3.connect(":memory:")  # a service: one that all processes of its group see
    database.execute("create table orders (transaction_id primary key, amount check (amount > 0))")

    async def write_order(amount: int, message: Message, transaction_id: str) -> TransactionState:
        try:
            with database:
                database.execute("insert into orders values (?, ?)", (transaction_id, amount))
        except sqlite3.IntegrityError:
            print(f"{message.body.decode()!r} is not an order: rolled back")
            return TransactionState.ROLLBACK
        return TransactionState.COMMIT

    async def is_there(message: ReceivedMessage) -> TransactionState:
        row = database.execute(
            "select 1 from orders where transaction_id = ?", (message.message_id,)
        ).fetchone()
        return TransactionState.COMMIT if row else TransactionState.UNKNOWN

    delivered = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            print(f"received {message.body.decode()!r}")
            delivered.set()

    async with (
        open_transaction_producer(
            "transaction-producer", check=is_there, name_servers=NAME_SERVERS
        ) as producer,
        open_push_consumer(
            "transaction-consumer",
            name_servers=NAME_SERVERS,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(handle),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ),
    ):
        for amount in (-5, 100):
            message = Message(topic=TOPIC, body=f"{amount} euros".encode())
            result = await producer.send_in_transaction(message, partial(write_order, amount))
            print(f"{amount} euros: {result.state.name}")
        with trio.fail_after(60):
            await delivered.wait()


if __name__ == "__main__":
    trio.run(main)
