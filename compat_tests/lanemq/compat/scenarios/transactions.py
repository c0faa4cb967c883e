"""Transactions: messages that are delivered if their producer says so, when it says so."""

from itertools import count

from .._errors import NotApplicable
from ..cells._cell import Cell
from ..cells._facts import is_refused_transactions
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing

CHECKED_S = 120.0
"""Seconds until a producer is asked: the clusters here ask every second."""


def _require_transactions(cell: Cell) -> None:
    if reason := is_refused_transactions(cell.client, cell.cluster.maker):
        raise NotApplicable(reason)


@scenario("transactions", long=True)
async def transactions(cell: Cell) -> None:
    """Committed messages arrive, at once or after checks; those rolled back do not."""
    _require_transactions(cell)
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.transaction_producer() as producer:
        for body, local, checks in (
            (b"committed", "commit", ["commit"]),
            (b"rolled back", "rollback", ["rollback"]),
            (b"committed when asked", "unknown", ["commit"]),
            (b"rolled back when asked", "unknown", ["rollback"]),
            (b"committed in the end", "unknown", ["unknown", "commit"]),
        ):
            message = Outgoing(topic, body, tags="TagA", keys="key", properties={"colour": "red"})
            sent = await producer.send_in_transaction(message, local=local, checks=checks)
            expect_equal("status", sent.status, "SEND_OK")
        wanted = {b"committed", b"committed when asked", b"committed in the end"}
        await consumer.until(
            "committed messages", lambda: wanted <= set(consumer.bodies), within_s=CHECKED_S
        )
        # Apache's brokers may ask about what has just ended, and deliver it twice then.
        undecided = {b"committed when asked", b"rolled back when asked", b"committed in the end"}
        await producer.checks.until(
            "checks of all that were not decided",
            lambda: undecided <= set(producer.checks.bodies),
            within_s=CHECKED_S,
        )
        # By the time that this one is decided, the others would have been asked about again.
        last = Outgoing(topic, b"last", tags="TagA", keys="key", properties={"colour": "red"})
        await producer.send_in_transaction(last, local="unknown", checks=["unknown", "commit"])
        await consumer.until("last message", lambda: b"last" in consumer.bodies, within_s=CHECKED_S)
        expect_equal("messages", set(consumer.bodies), {*wanted, b"last"})
        shown = {check.topic for check in producer.checks.consumed}
        expect_equal("topics that checks show", shown, {topic})
        for seen in consumer.consumed:
            own = {name: seen.properties.get(name) for name in ("colour", "TRAN_MSG", "PGROUP")}
            # The Go client ends its keys with a blank.
            keys = (seen.keys or "").split()
            expect_equal("tags and keys", (seen.tags, keys), ("TagA", ["key"]))
            expect_equal("own property", own["colour"], "red")
            expect_equal("mark of a transaction", own["TRAN_MSG"], "true")
            expect(bool(own["PGROUP"]), "the producer group in the message")


@scenario("transactions-of-a-group", long=True)
async def transactions_of_a_group(cell: Cell) -> None:
    """A transaction whose producer is gone is decided by another member of its group."""
    _require_transactions(cell)
    topic, group = await cell.topic(), cell.name("group")
    async with cell.consumer(topic) as consumer, cell.transaction_producer(group=group) as stays:
        # Open before the other one is gone: without a producer, eight rounds of checks pass soon.
        own = Outgoing(topic, b"own")
        await stays.send_in_transaction(own, local="commit", checks=["commit"])
        for number in count():
            body = b"left behind %d" % number
            async with cell.transaction_producer(group=group) as leaves:
                left = Outgoing(topic, body)
                await leaves.send_in_transaction(left, local="unknown", checks=["commit"])
            # One that took long to go may have been asked itself: then it decided.
            if body not in leaves.checks.bodies:
                break
        await consumer.until(
            "message of the one that is gone",
            lambda: {b"own", body} <= set(consumer.bodies),
            within_s=CHECKED_S,
        )
        expect(body in stays.checks.bodies, "a check of the other one's message")


@scenario("transactions-put-aside", long=True)
async def transactions_put_aside(cell: Cell) -> None:
    """A transaction that stays undecided is checked eight times, and then put aside."""
    _require_transactions(cell)
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.transaction_producer() as producer:

        def times() -> list[str]:
            return [
                check.properties.get("TRANSACTION_CHECK_TIMES", "")
                for check in producer.checks.consumed
                if check.body == b"never"
            ]

        await producer.send_in_transaction(Outgoing(topic, b"never"), local="unknown")
        await producer.checks.until("eighth check", lambda: "8" in times(), within_s=CHECKED_S)
        last = Outgoing(topic, b"last")
        await producer.send_in_transaction(last, local="unknown", checks=["unknown", "commit"])
        await consumer.until("last message", lambda: b"last" in consumer.bodies, within_s=CHECKED_S)
        # A check before the producer is known counts, and no client sees it.
        expect(times() == sorted(set(times())), f"each check once, in their order, not {times()}")
        expect_equal("last check", times()[-1], "8")
        expect_equal("messages", set(consumer.bodies), {b"last"})
