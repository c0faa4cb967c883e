# ruff: noqa: ANN401, PT017 - every face has a kit of its own; pytest is not for this package
"""Scenarios of SDK users, written once for all of its faces.

These functions run as they are on trio and on asyncio. For the blocking face every ``async`` and
``await`` is taken out of them (see ``faces``). Whatever a face does differently is behind
``kit``. They need a server, of any make; it should have short delays.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lanemq.compat.servers._waiting import CALL_S, PATIENT_CLIENT
from lanemq.sdk._errors import (
    BrokerUnreachable,
    ClientClosed,
    InvalidName,
    MessageRejected,
    NoRoute,
    WrongUse,
)
from lanemq.sdk._messages import Message, Outcome, ReceivedMessage, SendStatus
from lanemq.sdk._options import (
    ConsumeFrom,
    LitePullOptions,
    ProducerOptions,
    PushOptions,
)
from lanemq.sdk._transactions import TransactionState
from lanemq.sdk.net._remoting import RemotingOptions
from lanemq.sdk.observe._send_hooks import SendAttempt, SendHook
from lanemq.wire.bodies import MessageQueue, TopicConfig

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=PATIENT_CLIENT)
READ_ALL = LitePullOptions(
    consume_from=ConsumeFrom.FIRST_OFFSET, auto_commit=False, client=PATIENT_CLIENT
)
READING = LitePullOptions(client=PATIENT_CLIENT)
SEND = ProducerOptions(send_timeout_s=30.0, client=PATIENT_CLIENT)
"""Options with a time-out far longer than a send takes: the machine may be busy."""
NOBODY = "127.0.0.1:1"


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def open_admin(kit: Any) -> Any:
    return kit.sdk_admin.open_admin(name_servers=kit.name_servers, timeout_s=CALL_S)


async def topic_of(kit: Any, name: str, queues: int = 2) -> str:
    """Return a topic of this run, which is there and can be found."""
    topic: str = kit.name(name)
    async with open_admin(kit) as admin:
        for cluster in (await admin.cluster()).cluster_addr_table:
            for address in await admin.masters(cluster):
                await admin.put_topic(address, TopicConfig(topic, queues, queues))
        for _ in range(600):
            try:
                await admin.route(topic)
            except NoRoute:
                await kit.sleep(0.1)
            else:
                return topic
    raise AssertionError(f"{topic} was not found within 60 s")


async def fill(kit: Any, topic: str, count: int, *, queue_id: int | None = None) -> None:
    """Send to the queues in turn; on return all of it can be pulled.

    An Apache broker answers a send before its consume queue has the message.
    """
    ends: dict[MessageQueue, int] = {}
    async with kit.sdk.open_producer(
        "fillers", name_servers=kit.name_servers, options=SEND
    ) as producer:
        queues = await producer.publish_queues(topic)
        for number, body in enumerate(bodies(count)):
            at = number % len(queues) if queue_id is None else queue_id
            result = await producer.send(Message(topic=topic, body=body), queue=queues[at])
            ends[result.queue] = result.queue_offset + 1
    async with open_admin(kit) as admin:
        for _ in range(600):
            table = (await admin.topic_status(topic)).offset_table
            if all(queue in table and table[queue].max_offset >= ends[queue] for queue in ends):
                return
            await kit.sleep(0.1)
    raise AssertionError(f"what was sent to {topic} could not be pulled within 60 s")


async def read_all(kit: Any, topic: str, count: int) -> list[ReceivedMessage]:
    """Return messages of ``topic``, until ``count`` different ones came, by a reader of its own."""
    found: list[ReceivedMessage] = []
    async with kit.sdk.open_lite_pull_consumer(
        kit.name("reader"), name_servers=kit.name_servers, options=READ_ALL
    ) as consumer:
        await consumer.assign(await consumer.queues_of(topic))
        while len({message.body for message in found}) < count:
            messages = await consumer.poll(timeout_s=60)
            assert messages, f"{len(found)} of {count} messages came"
            found += messages
    return found


# Sending


async def sends_of_every_kind_arrive(kit: Any) -> None:
    topic = await topic_of(kit, "sends")
    async with kit.sdk.open_producer(
        "senders", name_servers=kit.name_servers, options=SEND
    ) as producer:
        assert producer.group == "senders"
        assert "@" in producer.client_id
        result = await producer.send(Message(topic=topic, body=b"0", tags="A", keys=("k",)))
        assert result.status is SendStatus.OK
        queues = await producer.publish_queues(topic)
        assert result.queue in queues
        to_queue = await producer.send(Message(topic=topic, body=b"1"), queue=queues[1])
        assert to_queue.queue == queues[1]
        by_key = [
            (await producer.send(Message(topic=topic, body=body), queue_key="order")).queue
            for body in bodies(2, 2)
        ]
        assert by_key[0] == by_key[1]
        await producer.send(Message(topic=topic, body=b"4"), queue=lambda queues, _: queues[0])
        await producer.send_oneway(Message(topic=topic, body=b"5"))
        await producer.send_batch([Message(topic=topic, body=body) for body in bodies(4, 6)])
        results = await producer.send_batches(
            [Message(topic=topic, body=body) for body in bodies(10, 10)], batch_bytes=200
        )
        assert len(results) > 1
    found = await read_all(kit, topic, 20)
    assert sorted(message.body for message in found) == sorted(bodies(20))
    (first,) = (message for message in found if message.body == b"0")
    assert (first.tags, first.keys, first.message_id) == ("A", ("k",), result.message_id)


async def many_share_a_producer(kit: Any) -> None:
    topic = await topic_of(kit, "shared")
    async with kit.sdk.open_producer(
        "senders", name_servers=kit.name_servers, options=SEND
    ) as producer:

        def sender(part: int) -> Any:
            async def send() -> None:
                for body in bodies(20, 20 * part):
                    await producer.send(Message(topic=topic, body=body))

            return send

        await kit.together(*[sender(part) for part in range(8)])
    found = await read_all(kit, topic, 160)
    assert sorted(message.body for message in found) == sorted(bodies(160))


async def a_staged_send_is_stored_stage_by_stage(kit: Any) -> None:
    topic = await topic_of(kit, "staged")
    async with kit.sdk.open_producer(
        "senders", name_servers=kit.name_servers, options=SEND
    ) as producer:
        async with producer.staged("prizes", [2, 3]) as stage:
            for body in bodies(9):
                await stage.send(Message(topic=topic, body=body))
            assert stage.number == 9
            queue = stage.queue
        async with producer.staged(queue, [1]) as stage:
            await stage.send(Message(topic=topic, body=b"9"))
            await stage.wait()
        assert isinstance(queue, MessageQueue)
    stored = {message.body: message.queue_offset for message in await read_all(kit, topic, 10)}
    assert {stored[body] for body in bodies(2)} == {0, 1}
    assert {stored[body] for body in bodies(3, 2)} == {2, 3, 4}
    assert stored[b"9"] == 9


async def hooks_are_told_of_sends(kit: Any) -> None:
    topic = await topic_of(kit, "hooks")
    seen: list[tuple[str, str, bool]] = []
    all_told = kit.event()

    async def before(attempt: SendAttempt) -> None:
        seen.append(("before", attempt.queue.topic, attempt.result is None))

    async def after(attempt: SendAttempt) -> None:
        seen.append(("after", attempt.queue.topic, attempt.result is None))
        all_told.set()

    options = ProducerOptions(
        hooks=(SendHook(before=before, after=after),),
        send_timeout_s=SEND.send_timeout_s,
        client=PATIENT_CLIENT,
    )
    async with kit.sdk.open_producer(
        "senders", name_servers=kit.name_servers, options=options
    ) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        await kit.wait(all_told)
    assert seen == [("before", topic, True), ("after", topic, False)]


# Listening


async def a_concurrent_listener_gets_everything(kit: Any) -> None:
    topic = await topic_of(kit, "concurrent")
    await fill(kit, topic, 40)
    missing, attempts = set(bodies(40)), Counter[bytes]()
    running, most = Counter[str](), 0
    all_there = kit.event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        nonlocal most
        running["now"] += 1
        most = max(most, running["now"])
        await kit.sleep(0.01)
        running["now"] -= 1
        for message in messages:
            attempts[message.body] += 1
            if message.body == b"7" and attempts[b"7"] == 1:
                return Outcome.RETRY
            if message.body == b"8" and attempts[b"8"] == 1:
                raise ValueError("not yet")
            missing.discard(message.body)
        if not missing:
            all_there.set()
        return None

    async with kit.sdk.open_push_consumer(
        kit.name("listeners"),
        name_servers=kit.name_servers,
        subscriptions={topic: "*"},
        listener=kit.sdk.ConcurrentListener(handle, concurrency=4),
        options=FIRST,
    ) as consumer:
        assert {queue.topic for queue in consumer.queues} >= {topic}
        assert consumer.concurrency == 4
        await kit.wait(all_there)
        assert 1 < most <= 4
        consumer.set_concurrency(2)
        assert consumer.concurrency == 2
        consumer.pause()
        assert consumer.paused == consumer.queues
        consumer.resume()
        assert consumer.paused == ()
        queue = consumer.queues[-1]
        assert consumer.committed_offset(queue) is not None
    assert attempts[b"7"] == attempts[b"8"] == 2


async def an_orderly_listener_keeps_the_order(kit: Any) -> None:
    topic = await topic_of(kit, "orderly")
    await fill(kit, topic, 30)
    seen: dict[int, list[int]] = {0: [], 1: []}
    suspended = []
    all_there = kit.event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        (message,) = messages
        number = int(message.body)
        if number in (4, 5) and number not in suspended:
            suspended.append(number)
            if number == 4:
                return Outcome.SUSPEND_CURRENT_QUEUE
            raise ValueError("not yet")
        await kit.sleep(0.001)
        seen[message.queue.queue_id].append(number)
        if sum(map(len, seen.values())) == 30:
            all_there.set()
        return Outcome.SUCCESS

    async with kit.sdk.open_push_consumer(
        kit.name("listeners"),
        name_servers=kit.name_servers,
        subscriptions={topic: "*"},
        listener=kit.sdk.OrderlyListener(handle, suspend_s=0.1),
        options=FIRST,
    ):
        await kit.wait(all_there)
    assert seen == {0: list(range(0, 30, 2)), 1: list(range(1, 30, 2))}


async def a_key_ordered_listener_keeps_the_order_of_keys(kit: Any) -> None:
    topic = await topic_of(kit, "keyed", queues=1)
    await fill(kit, topic, 40)
    seen: dict[int, list[int]] = {key: [] for key in range(8)}
    running: set[int] = set()
    together: list[int] = []
    failed: list[int] = []
    all_there = kit.event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        (message,) = messages
        number = int(message.body)
        key = number % 8
        assert key not in running, f"{number} runs beside another of its key"
        running.add(key)
        together.append(len(running))
        await kit.sleep(0.02)
        running.discard(key)
        if number in (3, 17) and number not in failed:
            failed.append(number)
            if number == 3:
                return Outcome.RETRY
            raise ValueError("not yet")
        seen[key].append(number)
        if sum(map(len, seen.values())) == 40:
            all_there.set()
        return Outcome.SUCCESS

    async with kit.sdk.open_push_consumer(
        kit.name("listeners"),
        name_servers=kit.name_servers,
        subscriptions={topic: "*"},
        listener=kit.sdk.KeyOrderedListener(
            handle, key=lambda message: int(message.body) % 8, suspend_s=0.1
        ),
        options=FIRST,
    ):
        await kit.wait(all_there)
    assert seen == {key: list(range(key, 40, 8)) for key in range(8)}
    assert max(together) > 1, "keys of one queue run at once"


async def a_staged_listener_keeps_stages_apart(kit: Any) -> None:
    topic = await topic_of(kit, "stages", queues=1)
    await fill(kit, topic, 12)
    running: set[int] = set()
    mixed: list[set[int]] = []
    seen: list[int] = []
    all_there = kit.event()

    def stage_of(number: int) -> int:
        return 0 if number < 3 else 1 if number < 8 else 2

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        (message,) = messages
        number = int(message.body)
        running.add(number)
        if len({stage_of(other) for other in tuple(running)}) > 1:
            mixed.append(set(running))
        await kit.sleep(0.02)
        running.discard(number)
        seen.append(number)
        if len(seen) == 12:
            all_there.set()

    store = kit.sdk.MemoryStageOffsets()
    async with kit.sdk.open_push_consumer(
        kit.name("listeners"),
        name_servers=kit.name_servers,
        subscriptions={topic: "*"},
        listener=kit.sdk.StagedConcurrentListener(handle, [3, 5], store=store),
        options=FIRST,
    ):
        await kit.wait(all_there)
    assert not mixed
    assert sorted(seen) == list(range(12))
    (record,) = (record for queue, record in store.records.items() if queue.topic == topic)
    assert (record.queue_offset, record.stage_offset) == (12, 12)


async def a_dead_letter_says_why_and_comes_again(kit: Any) -> None:
    topic, group = await topic_of(kit, "dying", queues=1), kit.name("givers-up")
    await fill(kit, topic, 1)
    fixed: list[int] = []
    again = kit.event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        if not fixed:
            raise ValueError("no such account")
        assert messages[0].topic == topic
        assert messages[0].body == b"0"
        again.set()

    async with (
        kit.sdk.open_push_consumer(
            group,
            name_servers=kit.name_servers,
            subscriptions={topic: "*"},
            listener=kit.sdk.ConcurrentListener(handle),
            options=replace(FIRST, max_reconsume_times=0),
        ),
        open_admin(kit) as admin,
    ):
        letters = []
        for _ in range(600):
            with suppress(NoRoute):  # the topic is made with the first of them
                letters = await kit.sdk_admin.dead_letters_of(admin, group)
            if letters:
                break
            await kit.sleep(0.1)
        (letter,) = letters
        assert (letter.topic, letter.attempts) == (topic, 1)
        assert letter.reason == "ValueError: no such account"
        fixed.append(1)
        assert await kit.sdk_admin.resend_dead_letters(admin, group) == [letter.message_id]
        await kit.wait(again)


async def topics_come_and_go_while_it_runs(kit: Any) -> None:
    first, second = await topic_of(kit, "comes"), await topic_of(kit, "goes")
    await fill(kit, first, 4)
    await fill(kit, second, 4)
    seen: list[tuple[str, bytes]] = []
    changes: list[tuple[str, int, int]] = []
    arrived = kit.event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        seen.extend((message.topic, message.body) for message in messages)
        if len(seen) in (4, 8, 12):
            arrived.set()

    async def note(change: Any) -> None:
        if change.topic in (first, second):
            changes.append((change.topic, len(change.assigned), len(change.revoked)))

    async with kit.sdk.open_push_consumer(
        kit.name("changers"),
        name_servers=kit.name_servers,
        subscriptions={first: "*"},
        listener=kit.sdk.ConcurrentListener(handle, concurrency=1),
        options=FIRST,
        on_queues_changed=note,
    ) as consumer:
        await kit.wait(arrived)
        arrived = kit.event()
        await consumer.subscribe(second)
        await kit.wait(arrived)
        arrived = kit.event()
        await consumer.unsubscribe(first)
        assert {queue.topic for queue in consumer.queues} >= {second}
        assert first not in {queue.topic for queue in consumer.queues}
        await fill(kit, first, 2)
        await fill(kit, second, 4)
        await kit.wait(arrived)
    wanted = [(first, body) for body in bodies(4)] + [(second, body) for body in bodies(4) * 2]
    assert sorted(seen) == sorted(wanted), seen
    assert changes[:2] == [(first, 2, 0), (second, 2, 0)], changes
    assert sum(revoked for topic, _, revoked in changes if topic == first) == 2, changes


async def a_running_listener_may_finish_when_the_block_ends(kit: Any) -> None:
    topic = await topic_of(kit, "closing", queues=1)
    await fill(kit, topic, 1)
    group = kit.name("listeners")
    begun = kit.event()
    done: list[ReceivedMessage] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        begun.set()
        await kit.sleep(0.3)
        done.extend(messages)

    async with kit.sdk.open_push_consumer(
        group,
        name_servers=kit.name_servers,
        subscriptions={topic: "*"},
        listener=kit.sdk.ConcurrentListener(handle),
        options=FIRST,
    ):
        await kit.wait(begun)
    assert len(done) == 1
    assert await committed(kit, group, topic) == 1


async def what_runs_when_the_block_fails_comes_again(kit: Any) -> None:
    topic = await topic_of(kit, "failing", queues=1)
    await fill(kit, topic, 1)
    group = kit.name("listeners")
    begun, go_on = kit.event(), kit.event()
    seen: list[bytes] = []

    async def never_ends(messages: Sequence[ReceivedMessage]) -> None:
        begun.set()
        await kit.wait(go_on)

    try:
        async with kit.sdk.open_push_consumer(
            group,
            name_servers=kit.name_servers,
            subscriptions={topic: "*"},
            listener=kit.sdk.ConcurrentListener(never_ends),
            options=FIRST,
        ):
            await kit.wait(begun)
            raise ZeroDivisionError("the application's own")
    except ZeroDivisionError:
        pass
    go_on.set()

    again = kit.event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        seen.extend(message.body for message in messages)
        again.set()

    async with kit.sdk.open_push_consumer(
        group,
        name_servers=kit.name_servers,
        subscriptions={topic: "*"},
        listener=kit.sdk.ConcurrentListener(handle),
        options=FIRST,
    ):
        await kit.wait(again)
    assert seen == [b"0"]


async def committed(kit: Any, group: str, topic: str) -> int | None:
    async with kit.sdk.open_lite_pull_consumer(
        group, name_servers=kit.name_servers, options=READ_ALL
    ) as consumer:
        (queue,) = await consumer.queues_of(topic)
        offset: int | None = await consumer.committed(queue)
        return offset


# Reading


async def a_lite_pull_consumer_goes_where_it_is_sent(kit: Any) -> None:
    topic = await topic_of(kit, "lite", queues=1)
    await fill(kit, topic, 10)
    group = kit.name("readers")
    async with kit.sdk.open_lite_pull_consumer(
        group, name_servers=kit.name_servers, options=READ_ALL
    ) as consumer:
        (queue,) = await consumer.queues_of(topic)
        await consumer.assign([queue])
        assert consumer.queues == (queue,)
        got: list[bytes] = []
        while len(got) < 10:
            got += [message.body for message in await consumer.poll(timeout_s=60)]
        assert got == bodies(10)
        assert await consumer.poll(timeout_s=0.05) == []
        consumer.seek(queue, 7)
        assert [message.body for message in await consumer.poll(timeout_s=60)] == bodies(3, 7)
        await consumer.seek_to_begin(queue)
        assert (await consumer.poll(timeout_s=60))[0].body == b"0"
        await consumer.seek_to_end(queue)
        assert await consumer.poll(timeout_s=0.05) == []
        assert await consumer.offsets_for_times({queue: 0}) == {queue: 0}
        assert await consumer.end_offsets([queue]) == {queue: 10}
        consumer.seek(queue, 4)
        assert await consumer.lag() == {queue: 6}
        consumer.seek(queue, 10)
        consumer.pause([queue])
        assert consumer.paused == (queue,)
        consumer.resume([queue])
        await consumer.commit({queue: 4})
        assert await consumer.committed(queue) == 4
    async with kit.sdk.open_lite_pull_consumer(
        group, name_servers=kit.name_servers, options=READ_ALL
    ) as consumer:
        await consumer.subscribe(topic)
        got = []
        async for message in consumer:
            got.append(message.body)
            if len(got) == 6:
                break
        assert got == bodies(6, 4)
        await consumer.unsubscribe(topic)
        assert consumer.queues == ()


# Errors


async def errors_are_raised_where_the_call_was_made(kit: Any) -> None:
    topic = kit.name("errors")
    for wrong in ("", "with a space"):
        try:
            async with kit.sdk.open_producer(wrong, name_servers=kit.name_servers):
                raise AssertionError("it opened")
        except InvalidName:
            pass
    async with kit.sdk.open_producer(
        "senders", name_servers=kit.name_servers, options=SEND
    ) as producer:
        try:
            await producer.send(Message(topic=topic, body=b"x", properties={"TAGS": "A"}))
        except MessageRejected as error:
            names = kit.frames(error)
            assert "errors_are_raised_where_the_call_was_made" in names, names
            assert "prepare" in names, names  # the core's own
        else:
            raise AssertionError("a property of the system was sent as one of the user")
    async with kit.sdk.open_lite_pull_consumer(
        kit.name("readers"), name_servers=kit.name_servers, options=READING
    ) as consumer:
        try:
            await consumer.queues_of(kit.name("nowhere"))
        except NoRoute as error:
            assert error.topic == kit.name("nowhere")
        else:
            raise AssertionError("a topic that is not there was found")
        try:
            await consumer.assign([])
            await consumer.subscribe(topic)
        except WrongUse:
            pass
        else:
            raise AssertionError("it may not do both")
    limits = RemotingOptions(connect_timeout_s=0.5)
    options = ProducerOptions(client=kit.sdk.ClientOptions(remoting=limits))
    async with kit.sdk.open_producer("senders", name_servers=NOBODY, options=options) as producer:
        try:
            await producer.send(Message(topic=topic, body=b"x"))
        except BrokerUnreachable as error:
            assert error.retriable
        else:
            raise AssertionError("nobody is there")


async def a_closed_client_says_so(kit: Any) -> None:
    topic = await topic_of(kit, "closed")
    async with kit.sdk.open_producer(
        "senders", name_servers=kit.name_servers, options=SEND
    ) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
    try:
        await producer.send(Message(topic=topic, body=b"y"))
    except ClientClosed:
        pass
    else:
        raise AssertionError("a closed producer sent")
    async with kit.sdk.open_lite_pull_consumer(
        kit.name("readers"), name_servers=kit.name_servers, options=READING
    ) as consumer:
        pass
    try:
        await consumer.poll(timeout_s=1)
    except ClientClosed:
        pass
    else:
        raise AssertionError("a closed consumer polled")
    try:
        consumer.seek(MessageQueue(topic, "broker-a", 0), 1)
    except ClientClosed:
        pass
    else:
        raise AssertionError("a closed consumer sought")


async def a_poll_ends_when_its_consumer_is_closed(kit: Any) -> None:
    topic = await topic_of(kit, "parting")
    ended: list[str] = []
    polling = kit.event()
    async with kit.sdk.open_lite_pull_consumer(
        kit.name("readers"), name_servers=kit.name_servers, options=READING
    ) as consumer:
        await consumer.subscribe(topic)

        async def poll() -> None:
            polling.set()
            try:
                ended.append(f"{await consumer.poll(timeout_s=60)}")
            except ClientClosed:
                ended.append("closed")

        waiting = await kit.begin(poll)
        await kit.wait(polling)
        await kit.sleep(0.1)
    await kit.end(waiting)
    assert ended == ["closed"]


async def an_administrator_sees_topics_and_groups(kit: Any) -> None:
    topic = await topic_of(kit, "administered")
    await fill(kit, topic, 3)
    async with open_admin(kit) as admin:
        status = await admin.topic_status(topic)
        assert sum(offsets.max_offset for offsets in status.offset_table.values()) == 3
        assert topic in await admin.topics()
        assert admin.name_servers == (kit.name_servers,)
        try:
            await admin.masters("no such cluster")
        except kit.sdk_admin.UnknownCluster as error:
            assert error.cluster == "no such cluster"
        else:
            raise AssertionError("a cluster that is not there was found")


SCENARIOS = (
    sends_of_every_kind_arrive,
    many_share_a_producer,
    a_staged_send_is_stored_stage_by_stage,
    hooks_are_told_of_sends,
    a_concurrent_listener_gets_everything,
    an_orderly_listener_keeps_the_order,
    a_key_ordered_listener_keeps_the_order_of_keys,
    a_staged_listener_keeps_stages_apart,
    a_dead_letter_says_why_and_comes_again,
    topics_come_and_go_while_it_runs,
    a_running_listener_may_finish_when_the_block_ends,
    what_runs_when_the_block_fails_comes_again,
    a_lite_pull_consumer_goes_where_it_is_sent,
    errors_are_raised_where_the_call_was_made,
    a_closed_client_says_so,
    a_poll_ends_when_its_consumer_is_closed,
    an_administrator_sees_topics_and_groups,
)


# Features that not every server has


async def transactions_are_ended_as_the_application_says(kit: Any) -> None:
    topic = await topic_of(kit, "transactions")
    places: list[object] = []
    committed = (b"0", b"2")

    async def check(message: ReceivedMessage) -> TransactionState:
        # A busy broker asks about what has just ended, and may deliver it twice then.
        return TransactionState.COMMIT if message.body in committed else TransactionState.ROLLBACK

    async def commit(message: Message, transaction_id: str) -> TransactionState:
        places.append(kit.here())
        return TransactionState.COMMIT

    async def roll_back(message: Message, transaction_id: str) -> TransactionState:
        return TransactionState.ROLLBACK

    async def fail(message: Message, transaction_id: str) -> TransactionState:
        raise ZeroDivisionError("the application's own")

    async with kit.sdk.open_transaction_producer(
        kit.name("payers"), name_servers=kit.name_servers, check=check, options=SEND
    ) as producer:
        for body, execute in ((b"0", commit), (b"1", roll_back), (b"2", commit)):
            result = await producer.send_in_transaction(Message(topic=topic, body=body), execute)
            assert result.sent.status is SendStatus.OK
        assert places == [kit.here()] * 2  # where the caller waited
        try:
            await producer.send_in_transaction(Message(topic=topic, body=b"3"), fail)
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("its error was lost")
        await producer.send(Message(topic=topic, body=b"4"))
    found = await read_all(kit, topic, 3)
    assert {message.body for message in found} == {*committed, b"4"}


TRANSACTION_SCENARIOS = (transactions_are_ended_as_the_application_says,)
