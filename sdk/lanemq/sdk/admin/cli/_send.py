"""sendMessage.

Source: RocketMQ 4.9.8, SendMessageCommand.
"""

import click

from lanemq.wire.bodies import MessageQueue

from ..._messages import Message, SendResult, SendStatus
from ..._options import ProducerOptions
from ..._producer import open_producer
from ...net._client import now_ms
from .._client import AdminClient
from .command._command import Output, command, fail


@command("sendMessage")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option("-p", "--body", required=True, help="The body; it is sent as UTF-8.")
@click.option("-k", "--key", "keys", default="", help="Keys, joined by blanks.")
@click.option("-c", "--tags", default="", help="Tag.")
@click.option("-b", "--broker", "broker_name", help="Name of the broker to send to.")
@click.option("-i", "--qid", "queue_id", type=click.IntRange(min=0), help="With -b: the queue.")
async def send_message(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    body: str,
    keys: str,
    tags: str,
    broker_name: str | None,
    queue_id: int | None,
) -> object:
    """Send one message."""
    if queue_id is not None and broker_name is None:
        fail("Broker name must be set if the queue is chosen: give it with -b BROKER_NAME")
    message = Message(topic=topic, body=body.encode(), tags=tags, keys=tuple(keys.split()))
    queue = None
    if broker_name is not None:
        queue = MessageQueue(topic, broker_name, queue_id if queue_id is not None else 0)
        await _check_queue(admin, queue)
    group = f"admin_{now_ms()}"
    options = sender_options(admin)
    async with open_producer(group, name_servers=admin.name_servers, options=options) as producer:
        result = await producer.send(message, queue=queue)
    out.line(f"{'#Broker Name':<32}  {'#QID':<4}  {'#Send Result':<20}    #MsgId")
    out.line(
        f"{result.queue.broker_name:<32}  {result.queue.queue_id:<4}  "
        f"{send_status(result):<20}    {result.message_id}"
    )
    return {
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
        "sendResult": send_status(result),
        "messageId": result.message_id,
        "offsetId": result.offset_id,
    }


def sender_options(admin: AdminClient) -> ProducerOptions:
    """Return a producer's options by which a send has as long as any other request of a command."""
    client = admin.client_options
    return ProducerOptions(client=client, send_timeout_s=client.call_timeout_s)


def send_status(result: SendResult) -> str:
    return "SEND_OK" if result.status is SendStatus.OK else result.status.name


async def _check_queue(admin: AdminClient, queue: MessageQueue) -> None:
    route = await admin.route(queue.topic)
    counts = {data.broker_name: data.write_queue_nums for data in route.queue_datas}
    if queue.broker_name not in counts:
        known = ", ".join(sorted(counts))
        fail(f"topic {queue.topic!r} is not on broker {queue.broker_name!r}; it is on: {known}")
    if queue.queue_id >= counts[queue.broker_name]:
        fail(
            f"topic {queue.topic!r} has no queue {queue.queue_id} on {queue.broker_name}: "
            f"its queues are 0 to {counts[queue.broker_name] - 1}"
        )
