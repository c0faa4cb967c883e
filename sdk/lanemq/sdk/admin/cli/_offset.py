"""resetOffsetByTime.

Source: RocketMQ 4.9.8, ResetOffsetByTimeCommand, ResetOffsetByTimeOldCommand.
"""

import click

from .._client import AdminClient
from .._reset import END, reset_offsets_by_time
from .command._command import Output, command, fail
from .command._text import TIME_FORM, boolean, parse_moment


@command("resetOffsetByTime")
@click.option("-g", "--group", required=True, help="Consumer group name.")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option("-s", "--timestamp", required=True, help=f"now, or {TIME_FORM}.")
@click.option("-f", "--force", default=True, help="false: no queue moves forward.")
async def reset_offset_by_time(
    admin: AdminClient, out: Output, *, group: str, topic: str, timestamp: str, force: bool
) -> object:
    """Make a consumer group go to a point in time."""
    timestamp = timestamp.strip()
    try:
        timestamp_ms = END if timestamp == "now" else parse_moment(timestamp)
    except ValueError as error:
        fail(f"-s: {error}, and not now")
    done = await reset_offsets_by_time(admin, group, topic, timestamp_ms, force=force)
    # mqadmin prints what brokers answer, whether they told members or moved the offsets; its
    # other text is for offsets that the tool itself moved.
    answered = dict(done.online or {})
    if done.by_brokers:
        answered |= {row.queue: row.rollback_offset for row in done.offline or ()}
    is_answer = done.online is not None or done.by_brokers
    word = "group" if is_answer else "consumerGroup"
    out.line(
        f"rollback consumer offset by specified {word}[{group}], topic[{topic}], "
        f"force[{boolean(force)}], timestamp(string)[{timestamp}], "
        f"timestamp(long)[{timestamp_ms}]"
    )
    rows: list[object] = []
    if is_answer:
        out.line(f"{'#brokerName':<40}  {'#queueId':<40}  {'#offset':<40}")
        for queue, offset in sorted(answered.items()):
            out.line(f"{queue.broker_name[:32]:<40}  {queue.queue_id:<40}  {offset:<40}")
            rows.append(
                {"brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
            )
    elif done.offline is not None:
        titles = (
            "#brokerName",
            "#queueId",
            "#brokerOffset",
            "#consumerOffset",
            "#timestampOffset",
            "#rollbackOffset",
        )
        out.line("  ".join(f"{title:<20}" for title in titles))
        for rollback in done.offline:
            row = {
                "brokerName": rollback.queue.broker_name,
                "queueId": rollback.queue.queue_id,
                "brokerOffset": rollback.broker_offset,
                "consumerOffset": rollback.consumer_offset,
                "timestampOffset": rollback.timestamp_offset,
                "rollbackOffset": rollback.rollback_offset,
            }
            out.line("  ".join(f"{value!s:<20}" for value in row.values()))
            rows.append(row)
    return {
        "group": group,
        "topic": topic,
        "timestamp": timestamp_ms,
        "online": done.online is not None,
        "queues": rows,
    }
