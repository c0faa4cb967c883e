"""Drives rocketmq-client-cpp by a wheel that has its library: a JSON object per line on stdin asks
for one call of its API, a JSON object per line on stdout answers it or reports a received message.
Nothing is decided here; what should happen is known by whoever asks.
"""

import base64
import ctypes
import json
import os
import sys
import threading
import traceback
from typing import Any

from rocketmq.client import Message, MessageModel, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.exceptions import RocketMQException, ffi_check
from rocketmq.ffi import _CConsumeStatus, _CMessageQueue, _CPullStatus, dll

VERSION = "@VERSION@"
SEND_TIMEOUT_MS = 15000  # many clients share a small machine
NO_ROUTE = "No route info of this topic"
STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
# The API has a property by its name only: these, and those of messages that were sent from here,
# or that a consumer was opened with.
SYSTEM_PROPERTIES = ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME")

Asked = dict[str, Any]

handles: dict[str, Any] = {}  # whatever a command opened, by the name it was given
known_properties = set(SYSTEM_PROPERTIES)
writing = threading.Lock()
wire = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what the library prints must not get between our lines


class Absent(Exception):  # noqa: N818 - says what is so
    """The API has no such thing."""


def write(line: dict[str, object]) -> None:
    with writing:
        wire.write(json.dumps(line).encode() + b"\n")
        wire.flush()


def build(asked: Asked) -> Any:  # noqa: ANN401 - of a library without types
    body = base64.b64decode(asked["body"])
    if b"\0" in body:
        raise Absent("the C API hands out a body as a text that ends at its first zero byte")
    if asked.get("flag"):
        raise Absent("the C API sets no flag")
    message = Message(asked["topic"])
    ffi_check(dll.SetByteMessageBody(message, body, len(body)))
    if "tags" in asked:
        message.set_tags(asked["tags"])
    if "keys" in asked:
        message.set_keys(asked["keys"])
    if "delay_level" in asked:
        message.set_delay_time_level(asked["delay_level"])
    for name, value in asked.get("properties", {}).items():
        known_properties.add(name)
        message.set_property(name, value)
    return message


def text(value: bytes | None) -> str | None:
    return None if not value else value.decode()


def describe(message: Any) -> dict[str, Any]:  # noqa: ANN401 - of a library without types
    found = {name: text(message.get_property(name)) for name in sorted(known_properties)}
    return {
        "topic": message.topic,
        "body": base64.b64encode(message.body or b"").decode(),
        "tags": text(message.tags),
        "keys": text(message.keys),
        "flag": 0,
        "properties": {name: value for name, value in found.items() if value is not None},
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "reconsume_times": message.reconsume_times,
        "message_id": message.id,
        "offset_id": str(message.commit_log_offset),  # the API does not give the id itself
        "born_timestamp_ms": message.born_timestamp,
        "store_timestamp_ms": message.store_timestamp,
    }


def open_producer(asked: Asked) -> object:
    producer = Producer(asked["group"], timeout=SEND_TIMEOUT_MS)
    ffi_check(dll.SetProducerInstanceName(producer._handle, asked["name"].encode()))
    producer.set_namesrv_addr(asked["name_server"])
    if "max_message_bytes" in asked:
        producer.set_max_message_size(asked["max_message_bytes"])
    producer.start()
    handles[asked["name"]] = producer
    return True


def close(asked: Asked) -> object:
    handles.pop(asked["name"]).shutdown()
    return True


def described(result: Any, queue_id: int | None = None) -> object:  # noqa: ANN401 - likewise
    """Return what a send gave; a result of the C API has no queue, and no id of a place."""
    return {
        "status": STATUSES[result.status],
        "message_id": result.msg_id,
        "offset_id": result.msg_id,
        "queue_id": -1 if queue_id is None else queue_id,
        "queue_offset": result.offset,
    }


def send(asked: Asked) -> object:
    # The library gives its question for a route three seconds, which no option changes, and does
    # not ask again.
    for _ in range(4):
        try:
            return send_once(asked)
        except RocketMQException as error:
            if NO_ROUTE not in str(error):
                raise
    return send_once(asked)


def send_once(asked: Asked) -> object:
    producer, message = handles[asked["producer"]], build(asked["message"])
    queue_id, mode = asked.get("queue_id"), asked["mode"]

    def select(*_: object) -> int | None:
        return queue_id

    if mode == "oneway":
        if queue_id is None:
            producer.send_oneway(message)
        else:
            producer.send_oneway_orderly(message, 0, queue_selector=select)
        return None
    if mode == "async" and queue_id is None:
        answers: list[Any] = []
        done = threading.Event()

        def note(result: object) -> None:
            answers.append(result)
            done.set()

        producer.send_async(message, note, note)
        if not done.wait(60):
            raise TimeoutError("no callback within a minute")
        if isinstance(answers[0], Exception):
            raise answers[0]
        return described(answers[0])
    if queue_id is None:
        return described(producer.send_sync(message))
    return described(producer.send_orderly(message, 0, queue_selector=select), queue_id)


def send_batch(asked: Asked) -> object:
    batch = [build(message) for message in asked["messages"]]
    return described(handles[asked["producer"]].send_batch(batch))


def open_consumer(asked: Asked) -> object:
    for option in ("sql", "max_reconsume_times"):
        if option in asked:
            raise Absent(f"the C API has no {option} of consumers")
    known_properties.update(asked.get("properties", ()))
    model = MessageModel.BROADCASTING if asked.get("broadcasting") else MessageModel.CLUSTERING
    consumer = PushConsumer(asked["group"], orderly=bool(asked.get("orderly")), message_model=model)
    consumer.set_instance_name(asked["name"])
    consumer.set_namesrv_addr(asked["name_server"])
    consumer.set_thread_count(2)
    lock = threading.Lock()
    attempts: dict[str, int] = {}

    # The wheel's own callback raises what a listener raised, and so returns nothing to the library.
    def deliver(_consumer: int, handle: int) -> int:
        seen = describe(RecvMessage(handle))
        with lock:
            attempts[seen["body"]] = attempts.get(seen["body"], 0) + 1
            succeeded = attempts[seen["body"]] > asked.get("fail_first", 0)
        event = {"event": "message", "consumer": asked["name"], "succeeded": succeeded}
        write({**event, "message": seen})
        status = _CConsumeStatus.CONSUME_SUCCESS if succeeded else _CConsumeStatus.RECONSUME_LATER
        return int(status.value)

    ffi_check(dll.Subscribe(consumer._handle, asked["topic"].encode(), asked["tags"].encode()))
    consumer._register_callback(deliver)
    consumer.start()
    handles[asked["name"]] = consumer
    return True


def open_puller(asked: Asked) -> object:
    puller = PullConsumer(asked["group"])
    puller.set_namesrv_addr(asked["name_server"])
    puller.start()
    handles[asked["name"]] = puller
    return True


class Queues:
    """The queues of a topic, as long as the block is open."""

    def __init__(self, asked: Asked) -> None:
        self._puller, self._topic = handles[asked["puller"]], asked["topic"].encode()

    def __enter__(self) -> list[Any]:
        self._found, size = ctypes.POINTER(_CMessageQueue)(), ctypes.c_int()
        ffi_check(
            dll.FetchSubscriptionMessageQueues(
                self._puller._handle,
                self._topic,
                ctypes.pointer(self._found),
                ctypes.pointer(size),
            )
        )
        return [self._found[number] for number in range(size.value)]

    def __exit__(self, *_: object) -> None:
        ffi_check(dll.ReleaseSubscriptionMessageQueue(self._found))


def queues(asked: Asked) -> object:
    with Queues(asked) as found:
        return sorted(queue.queueId for queue in found)


def pull(asked: Asked) -> object:
    with Queues(asked) as found:
        (queue,) = [queue for queue in found if queue.queueId == asked["queue_id"]]
        result = dll.Pull(
            handles[asked["puller"]]._handle,
            ctypes.pointer(queue),
            asked["tags"].encode(),
            asked["queue_offset"],
            asked["max_count"],
        )
    status = _CPullStatus(result.pullStatus).name
    count = result.size if status == "FOUND" else 0
    messages = [describe(RecvMessage(result.msgFoundList[number])) for number in range(count)]
    answer = {
        "status": status,
        "next_offset": result.nextBeginOffset,
        "min_offset": result.minOffset,
        "max_offset": result.maxOffset,
        "messages": messages,
    }
    dll.ReleasePullResult(result)
    return answer


COMMANDS = {
    "open_producer": open_producer,
    "close_producer": close,
    "send": send,
    "send_batch": send_batch,
    "open_consumer": open_consumer,
    "close_consumer": close,
    "open_puller": open_puller,
    "close_puller": close,
    "queues": queues,
    "pull": pull,
}


def answer(asked: Asked) -> None:
    reply: dict[str, object] = {"id": asked["id"]}
    try:
        if asked["command"] not in COMMANDS:
            raise Absent(f"the C API of {VERSION} has no {asked['command']}")
        reply["result"] = COMMANDS[asked["command"]](asked)
    except Absent as absent:
        reply["not_applicable"] = str(absent)
    except Exception as error:
        traceback.print_exc()
        reply["error"] = type(error).__name__
        reply["code"] = None
        reply["message"] = str(error)
    write(reply)


for line in sys.stdin:
    threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
os._exit(0)  # whoever drove us is gone
