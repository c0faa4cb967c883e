"""queryMsgById, queryMsgByKey, queryMsgByUniqueKey, printMsg.

Source: RocketMQ 4.9.8, QueryMsgByIdSubCommand, QueryMsgByKeySubCommand,
QueryMsgByUniqueKeySubCommand, PrintMessageSubCommand.
"""

import codecs

import click

from lanemq.wire import LONG_MAX
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StoredMessage

from ..._messages import Message
from ..._producer import open_producer
from ..._pull_status import PullStatus
from .._client import AdminClient, queues_of
from ..requests._messages import message_id
from ._found import body_of, message_value, show
from ._send import send_status, sender_options
from .command._command import Output, command, fail
from .command._text import message_line, parse_moment

MESSAGES_PER_PULL = 32
RULE = "-" * 56


class Moment(click.ParamType[int]):
    """A time in one of mqadmin's two forms."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


MOMENT = Moment()


@command("queryMsgById")
@click.option(
    "-i", "--msgId", "message_ids", required=True, help="Message id, or several, by comma."
)
@click.option("-t", "--topic", help="Topic; needed for an id that a producer made.")
@click.option("-g", "--consumerGroup", "group", help="With -d: the consumer to give it to.")
@click.option("-d", "--clientId", "client_id", help="With -g: let this client consume it now.")
@click.option("-s", "--sendMessage", "resend", default=False, help="Send it once more.")
async def query_by_id(
    admin: AdminClient,
    out: Output,
    *,
    message_ids: str,
    topic: str | None,
    group: str | None,
    client_id: str | None,
    resend: bool,
) -> object:
    """Find messages by their ids."""
    if (group is None) != (client_id is None):
        fail("-g GROUP and -d CLIENT_ID belong together")
    values: list[object] = []
    for wanted in filter(None, (part.strip() for part in message_ids.split(","))):
        message = await admin.message(wanted, topic=topic)
        if message is None:
            fail(f"Message not found! {wanted}" + (f" in topic {topic!r}" if topic else ""))
        if group is not None and client_id is not None:
            values.append(await _give(admin, out, message, group, client_id))
        elif resend:
            values.append(await _send_again(admin, out, message))
        else:
            values.append(await show(admin, out, message, with_id=True))
    return values


async def _give(
    admin: AdminClient, out: Output, message: StoredMessage, group: str, client_id: str
) -> object:
    result = await admin.consume_directly(
        str(message.store_host), group, client_id, message.offset_id
    )
    out.line(
        f"ConsumeMessageDirectlyResult [order={result.order}, autoCommit={result.auto_commit}, "
        f"consumeResult={result.consume_result}, remark={result.remark}, "
        f"spentTimeMills={result.spent_time_mills}]"
    )
    return result


async def _send_again(admin: AdminClient, out: Output, message: StoredMessage) -> object:
    copied = {
        name: value
        for name, value in message.properties.items()
        if name not in {"KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON"}
    }
    again = Message(
        topic=message.topic,
        body=body_of(message),
        tags=message.tags or "",
        keys=message.keys,
        properties=copied,
    )
    options = sender_options(admin)
    async with open_producer(
        "ReSendMsgById", name_servers=admin.name_servers, options=options
    ) as sender:
        result = await sender.send(again)
    out.line(f"prepare resend msg. originalMsgId={message_id(message)}")
    out.line(
        f"SendResult [sendStatus={send_status(result)}, msgId={result.message_id}, "
        f"offsetMsgId={result.offset_id}, queueOffset={result.queue_offset}]"
    )
    return {"originalMessageId": message_id(message), "messageId": result.message_id}


@command("queryMsgByKey")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option("-k", "--msgKey", "key", required=True, help="Message key.")
@click.option(
    "-b", "--beginTimestamp", "begin_ms", type=MOMENT, default=0, help="Stored from this time on."
)
@click.option(
    "-e", "--endTimestamp", "end_ms", type=MOMENT, default=LONG_MAX, help="Stored up to this time."
)
@click.option(
    "-m",
    "--maxNum",
    "max_count",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Messages of each broker at most.",
)
async def query_by_key(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    key: str,
    begin_ms: int,
    end_ms: int,
    max_count: int,
) -> object:
    """Find messages by one of their keys."""
    found = await admin.messages_by_key(
        topic, key, max_count=max_count, begin_ms=begin_ms, end_ms=end_ms
    )
    if not found:
        fail(f"no message of topic {topic!r} has the key {key!r}")
    out.line(f"{'#Message ID':<50} {'#QID':>4} {'#Offset':>40}")
    for message in found:
        out.line(f"{message_id(message):<50} {message.queue_id:>4} {message.queue_offset:>40}")
    return [message_value(message, body_of(message)) for message in found]


@command("queryMsgByUniqueKey")
@click.option("-t", "--topic", required=True, help="Topic of the message.")
@click.option("-i", "--msgId", "key", required=True, help="The id that its producer got.")
@click.option("-g", "--consumerGroup", "group", help="With -d: the consumer to give it to.")
@click.option("-d", "--clientId", "client_id", help="With -g: let this client consume it now.")
@click.option("-a", "--showAll", "show_all", is_flag=True, help="All that have it, 32 at most.")
async def query_by_unique_key(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    key: str,
    group: str | None,
    client_id: str | None,
    show_all: bool,
) -> object:
    """Find a message by the id that its producer got."""
    if (group is None) != (client_id is None):
        fail("-g GROUP and -d CLIENT_ID belong together")
    found = await admin.messages_by_unique_key(topic, key)
    if not found:
        fail(f"Message not found! {key} in topic {topic!r}")
    if group is not None and client_id is not None:
        return await _give(admin, out, found[0], group, client_id)
    chosen = found if show_all else found[:1]
    return [
        await show(admin, out, message, with_id=False, index=index)
        for index, message in enumerate(chosen)
    ]


@command("printMsg")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option(
    "-c", "--charsetName", "charset", default="UTF-8", show_default=True, help="Of the bodies."
)
@click.option("-s", "--subExpression", "expression", default="*", help="As TagA || TagB.")
@click.option("-b", "--beginTimestamp", "begin_ms", type=MOMENT, help="From this time on.")
@click.option("-e", "--endTimestamp", "end_ms", type=MOMENT, help="Up to this time.")
@click.option(
    "-d",
    "--printBody",
    "print_body",
    default=True,
    show_default=True,
    help="false: leave the bodies out.",
)
async def print_messages(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    charset: str,
    expression: str,
    begin_ms: int | None,
    end_ms: int | None,
    print_body: bool,
) -> object:
    """Print the messages of a topic, queue by queue."""
    try:
        codecs.lookup(charset)
    except LookupError:
        fail(f"unknown charset {charset!r}: give a name such as UTF-8 or GBK with -c")
    values: list[object] = []
    for address, queue in queues_of(await admin.route(topic), topic):
        begin = await _bound(admin, address, queue, begin_ms, of_end=False)
        end = await _bound(admin, address, queue, end_ms, of_end=True)
        named = queue.java_text
        out.line(f"minOffset={begin}, maxOffset={end}, {named}")
        offset = begin
        while offset < end:
            pulled = await admin.pull(
                address, queue, offset, expression=expression, max_count=MESSAGES_PER_PULL
            )
            offset = pulled.next_offset
            for message in pulled.messages:
                body = body_of(message)
                text = body.decode(charset, "replace") if print_body else "NOT PRINT BODY"
                out.line(
                    f"MSGID: {message_id(message)} "
                    f"{message_line(message, queue.broker_name, body)} BODY: {text}",
                    whole=True,
                )
                values.append(message_value(message, body if print_body else b""))
            status = pulled.status.value
            if pulled.status is PullStatus.NO_MATCHED_MSG:
                out.line(f"{named} no matched msg. status={status}, offset={offset}")
            elif pulled.status is not PullStatus.FOUND:
                out.line(f"{named} print msg finished. status={status}, offset={offset}")
                break
        out.line(RULE)
    return values


async def _bound(
    admin: AdminClient, address: str, queue: MessageQueue, time_ms: int | None, *, of_end: bool
) -> int:
    if time_ms is not None:
        return await admin.search_offset(address, queue, time_ms)
    if of_end:
        return await admin.max_offset(address, queue)
    return await admin.min_offset(address, queue)
