"""``lanemq store dump``."""

import base64
import sys
from pathlib import Path

import click
import msgspec

from lanemq.local import print_indented, print_json, print_line
from lanemq.wire import RemoteProtocolError
from lanemq.wire.message import StoredMessage

from ..tools import BrokerSettings, Lost, Selection, open_dump
from ._command import (
    EXIT_PROBLEM,
    Failed,
    count_text,
    size_text,
    store_command,
    time_text,
)
from ._moment import MOMENT

DEFAULT_COUNT = 32
PREVIEW_CHARACTERS = 60


@click.command()
@store_command
@click.option("-t", "--topic", help="Only this topic.")
@click.option("-q", "--queue", "queue_id", type=click.IntRange(min=0), help="Only this queue.")
@click.option("-o", "--offset", type=click.IntRange(min=0), help="From this offset of a queue on.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    default=DEFAULT_COUNT,
    show_default=True,
    help="Messages to print at most; 0 for all.",
)
@click.option("-k", "--key", help="Only messages with this key or unique key.")
@click.option("--since", "begin_ms", type=MOMENT, help="Only messages stored from this time on.")
@click.option("--until", "end_ms", type=MOMENT, help="Only messages stored up to this time.")
@click.option(
    "--from-log", "source", flag_value="log", help="Go through the log, without any index."
)
@click.option("--from-files", "source", flag_value="files", help="By the queues in files.")
@click.option("--from-rocksdb", "source", flag_value="rocksdb", help="By the queues in RocksDB.")
@click.option("--body", is_flag=True, help="Print whole bodies: as text, or else in base 64.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each message.")
def dump(
    root: Path,
    settings: BrokerSettings,
    topic: str | None,
    queue_id: int | None,
    offset: int | None,
    count: int,
    key: str | None,
    begin_ms: int | None,
    end_ms: int | None,
    source: str | None,
    body: bool,
    as_json: bool,
) -> None:
    """Print messages, queue by queue, or in the order of the log.

    A place in a queue that leads to no message is printed too, and so are, with --from-log,
    bytes of the log that are not a record. Times are local, as 2026-11-21T04:45:40, or
    milliseconds since 1970.

    Exit status: 0, or 1 where something was not a message that should be one, 2 for no store.
    """
    if topic is None and source != "log" and key is None:
        raise Failed("no topic given: use --topic T, or --from-log for all that is in the log")
    selection = Selection(
        topic=topic,
        queue_id=queue_id,
        offset=offset,
        key=key,
        begin_ms=begin_ms,
        end_ms=end_ms,
        count=count or None,
    )
    found = lost = 0
    with open_dump(root, selection, source=source, commit_log=settings.commit_log) as messages:
        for message in messages:
            if isinstance(message, Lost):
                lost += 1
                _show_lost(message, as_json=as_json)
            else:
                found += 1
                _show(message, whole=body, as_json=as_json)
        order = messages.source
    if not as_json:
        more = "; there may be more, -n 0 prints all" if count and found + lost == count else ""
        print_line(f"{count_text(found, 'message')}, by {_ORDERS[order]}{more}", err=True)
    sys.exit(EXIT_PROBLEM if lost else 0)


_ORDERS = {"log": "the log", "files": "the queue files", "rocksdb": "RocksDB"}


def _show_lost(lost: Lost, *, as_json: bool) -> None:
    if as_json:
        print_json(
            msgspec.json.encode(
                {
                    "lost": lost.why,
                    "topic": lost.topic,
                    "queueId": lost.queue_id,
                    "queueOffset": lost.queue_offset,
                    "logPosition": lost.log_position,
                }
            )
        )
        return
    place = f"{lost.topic} {lost.queue_id}:{lost.queue_offset} " if lost.topic is not None else ""
    print_line(f"{place}position {lost.log_position}: no message: {lost.why}")


def _show(message: StoredMessage, *, whole: bool, as_json: bool) -> None:
    try:
        body, problem = message.decompressed_body(), None
    except RemoteProtocolError as error:
        body, problem = message.body, str(error)
    if as_json:
        print_json(msgspec.json.encode(_value(message, body, problem, whole=whole)))
        return
    tags = f" tags={message.tags}" if message.tags else ""
    keys = f" keys={','.join(message.keys)}" if message.keys else ""
    print_line(
        f"{message.topic} {message.queue_id}:{message.queue_offset}"
        f" position {message.log_position}, {size_text(message.size_bytes)},"
        f" {time_text(message.store_timestamp_ms)}"
        f" id={message.unique_key or message.offset_id}{tags}{keys}"
    )
    text = _text(body)
    if problem is not None:
        print_line(f"    body of {len(body)} bytes cannot be decompressed: {problem}")
    elif whole:
        print_indented(text if text is not None else base64.b64encode(body).decode())
    elif text is None:
        print_line(f"    {len(body)} bytes that are not text; --body prints them")
    elif text:
        line = text if len(text) <= PREVIEW_CHARACTERS else text[:PREVIEW_CHARACTERS] + "..."
        print_line("    " + " ".join(line.split()))


def _text(body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter.isspace() for letter in text) else None


def _value(
    message: StoredMessage, body: bytes, problem: str | None, *, whole: bool
) -> dict[str, object]:
    value: dict[str, object] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "logPosition": message.log_position,
        "sizeBytes": message.size_bytes,
        "messageId": message.unique_key or message.offset_id,
        "offsetMessageId": message.offset_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestampMs": message.born_timestamp_ms,
        "bornHost": str(message.born_host),
        "storeTimestampMs": message.store_timestamp_ms,
        "storeHost": str(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "properties": message.properties,
        "bodyBytes": len(body),
    }
    if problem is not None:
        value["bodyProblem"] = problem
    if whole:
        text = _text(body)
        if text is not None:
            value["body"] = text
        else:
            value["bodyBase64"] = base64.b64encode(body).decode()
    return value
