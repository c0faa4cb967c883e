"""updateSubGroup and consumerProgress.

Source: RocketMQ 4.9.8, UpdateSubGroupSubCommand, ConsumerProgressSubCommand.
"""

import click

from lanemq.local import print_line
from lanemq.wire import group_of_retry_topic, version_name
from lanemq.wire.bodies import ConsumerConnection, MessageQueue, SubscriptionGroupConfig
from lanemq.wire.message import Stages

from ..._errors import LanemqError, NoRoute
from .._client import AdminClient, addresses_of
from .command._command import Output, chosen_masters, command, fail
from .command._text import boolean, moment_in_seconds

SIZE_DIGITS = 20  # more than any number of messages has, and Python reads them at once
STAGES = "stages"  # the member of a group's settings that lanemq adds


@command("updateSubGroup")
@click.option("-b", "--brokerAddr", "broker", help="Create the group on this broker.")
@click.option("-c", "--clusterName", "cluster", help="Create the group on all masters of it.")
@click.option("-g", "--groupName", "group", required=True, help="Consumer group name.")
@click.option("-s", "--consumeEnable", "consume_enable", default=True, help="The group may read.")
@click.option(
    "-m", "--consumeFromMinEnable", "from_min", default=False, help="Begin at the oldest."
)
@click.option(
    "-d", "--consumeBroadcastEnable", "broadcast", default=False, help="The group may broadcast."
)
@click.option(
    "-q",
    "--retryQueueNums",
    "retry_queues",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Queues of its retry topic.",
)
@click.option(
    "-r",
    "--retryMaxTimes",
    "retry_max_times",
    default=16,
    show_default=True,
    help="Deliveries before a message is given up.",
)
@click.option(
    "-i",
    "--brokerId",
    "broker_id",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Id of the broker that the group reads from.",
)
@click.option(
    "-w",
    "--whichBrokerWhenConsumeSlowly",
    "slow_broker_id",
    default=1,
    show_default=True,
    help="Id of the broker that it reads from when data is no longer in memory.",
)
@click.option(
    "-a",
    "--notifyConsumerIdsChanged",
    "notify",
    default=True,
    help="Tell the members when one comes or goes.",
)
@click.option(
    "--stages",
    metavar="SIZES",
    help="Sizes of consecutive stages of a queue, as 10,20,70; '' for none. Only lanemq"
    " brokers have stages; without this option they stay as they are.",
)
async def update_sub_group(
    admin: AdminClient,
    out: Output,
    *,
    broker: str | None,
    cluster: str | None,
    group: str,
    consume_enable: bool,
    from_min: bool,
    broadcast: bool,
    retry_queues: int,
    retry_max_times: int,
    broker_id: int,
    slow_broker_id: int,
    notify: bool,
    stages: str | None,
) -> object:
    """Create a consumer group, or change it."""
    sizes = None if stages is None else _sizes(stages)
    config = SubscriptionGroupConfig(
        group_name=group.strip(),
        consume_enable=consume_enable,
        consume_from_min_enable=from_min,
        consume_broadcast_enable=broadcast,
        retry_queue_nums=retry_queues,
        retry_max_times=retry_max_times,
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_broker_id,
        notify_consumer_ids_changed_enable=notify,
        extra={} if sizes is None else {STAGES: sizes},
    )
    addresses = await chosen_masters(admin, broker, cluster)
    for address in addresses:
        await admin.put_group(address, config)
        if sizes:
            await _check_stages(admin, address, config)
        out.line(f"create subscription group to {address} success.")
    out.line(
        f"SubscriptionGroupConfig [groupName={config.group_name}, "
        f"consumeEnable={boolean(consume_enable)}, consumeFromMinEnable={boolean(from_min)}, "
        f"consumeBroadcastEnable={boolean(broadcast)}, retryQueueNums={retry_queues}, "
        f"retryMaxTimes={retry_max_times}, brokerId={broker_id}, "
        f"whichBrokerWhenConsumeSlowly={slow_broker_id}, "
        f"notifyConsumerIdsChangedEnable={boolean(notify)}]"
    )
    if sizes is not None:
        out.line(f"stages of each queue: {', '.join(map(str, sizes)) or 'none'}")
    return {"brokers": addresses, "subscriptionGroupConfig": config}


def _sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    for part in parts:
        if not (part.isascii() and part.isdigit()):
            fail(f"--stages: {part!r} is not a number: write sizes as 10,20,70, or '' for none")
        if len(part) > SIZE_DIGITS:
            fail(f"--stages: a size of {len(part)} digits is too large")
    try:
        return list(Stages(map(int, parts)).sizes)
    except ValueError as error:
        fail(f"--stages: {error}")


async def _check_stages(admin: AdminClient, address: str, config: SubscriptionGroupConfig) -> None:
    """Check that a broker kept the stages: one that knows of none takes the settings without
    them."""
    groups = (await admin.groups(address)).subscription_group_table
    kept = groups.get(config.group_name)
    if kept is None or kept.extra.get(STAGES) != config.extra[STAGES]:
        fail(f"the group exists now at {address}, but without stages: that is not a lanemq broker")


@command("consumerProgress")
@click.option("-g", "--groupName", "group", help="Only this consumer group, queue by queue.")
@click.option("-t", "--topicName", "topic", help="With -g: only this topic.")
@click.option(
    "-s",
    "--showClientIP",
    "show_client",
    default=False,
    help="With -g: which client has each queue.",
)
async def consumer_progress(
    admin: AdminClient, out: Output, *, group: str | None, topic: str | None, show_client: bool
) -> object:
    """Show how far consumer groups have come."""
    if group is None:
        if topic is not None or show_client:
            fail("-t and -s tell about one group: give it with -g GROUP")
        return await _all_groups(admin, out)
    return await _one_group(admin, out, group, topic, show_client=show_client)


async def _one_group(
    admin: AdminClient, out: Output, group: str, topic: str | None, *, show_client: bool
) -> object:
    try:
        stats = await admin.progress(group, topic=topic)
    except NoRoute:
        fail(
            f"consumer group {group!r} is unknown: it has no retry topic at the name server; "
            "`lanemq admin consumerProgress` lists the groups there are"
        )
    if not stats.offset_table:
        fail(
            f"consumer group {group!r} has no offsets"
            + (f" in topic {topic!r}" if topic else "")
            + ": it has not consumed any message yet"
        )
    clients = await _client_hosts(admin, group) if show_client else {}
    # Three columns sit one blank closer in this form; scripts cut at fixed columns.
    client_title = f"{'#Client IP':<20} " if show_client else ""
    out.line(
        f"{'#Topic':<64}  {'#Broker Name':<32}  {'#QID':<4}  {'#Broker Offset':<20}  "
        f"{'#Consumer Offset':<20}  {client_title}{'#Diff':<20}  #LastTime"
    )
    rows = []
    for queue, offsets in sorted(stats.offset_table.items()):
        behind = offsets.broker_offset - offsets.consumer_offset
        last_ms = offsets.last_timestamp
        client = clients.get(queue, "N/A")
        client_text = f"{client:<20} " if show_client else ""
        out.line(
            f"{queue.topic[:64]:<64}  {queue.broker_name[:32]:<32}  {queue.queue_id:<4}  "
            f"{offsets.broker_offset:<20}  {offsets.consumer_offset:<20}  {client_text}"
            f"{behind:<20}  {moment_in_seconds(last_ms) if last_ms else 'N/A'}"
        )
        row: dict[str, object] = {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "brokerOffset": offsets.broker_offset,
            "consumerOffset": offsets.consumer_offset,
            "diff": behind,
            "lastTimestamp": last_ms,
        }
        if show_client:
            row["clientIP"] = clients.get(queue)
        rows.append(row)
    total = sum(
        offsets.broker_offset - offsets.consumer_offset for offsets in stats.offset_table.values()
    )
    out.line()
    out.line(f"Consume TPS: {stats.consume_tps:.2f}")
    out.line(f"Diff Total: {total}")
    return {"group": group, "consumeTps": stats.consume_tps, "diffTotal": total, "queues": rows}


async def _client_hosts(admin: AdminClient, group: str) -> dict[MessageQueue, str]:
    """Return which client reads each queue; a consumer that does not answer is left out."""
    hosts: dict[MessageQueue, str] = {}
    route = await admin.route(f"%RETRY%{group}")
    for address in addresses_of(route):
        connections = await admin.consumer_connections(address, group)
        for connection in connections.connection_set if connections is not None else ():
            try:
                info = await admin.running_info(address, group, connection.client_id)
            except LanemqError as error:
                print_line(f"{connection.client_id}: {error}", err=True)
                continue
            for queue in info.mq_table:
                hosts[queue] = connection.client_id.split("@", 1)[0]
    return hosts


async def _all_groups(admin: AdminClient, out: Output) -> object:
    out.line(
        f"{'#Group':<64}  {'#Count':<6}  {'#Version':<24} {'#Type':<5}  {'#Model':<14}  "
        f"{'#TPS':<7}  #Diff Total"
    )
    rows = []
    for retry_topic in await admin.topics():
        group = group_of_retry_topic(retry_topic)
        if group is not None:
            rows.append(await _summary(admin, out, group))
    return rows


async def _summary(admin: AdminClient, out: Output, group: str) -> dict[str, object]:
    tps, behind = 0.0, 0
    connections: ConsumerConnection | None = None
    try:
        stats = await admin.progress(group)
        tps = stats.consume_tps
        behind = sum(
            offsets.broker_offset - offsets.consumer_offset
            for offsets in stats.offset_table.values()
        )
        connections = await admin.connections(group)
    except LanemqError as error:  # one group must not hide the others
        print_line(f"{group}: {error}", err=True)
    members = connections.connection_set if connections is not None else ()
    version, kind, model = "OFFLINE", "", ""
    if connections is not None and members:
        version = version_name(min(member.version for member in members))
        kind = "PULL" if connections.consume_type == "CONSUME_ACTIVELY" else "PUSH"
        model = str(connections.message_model) if kind == "PUSH" else ""
    out.line(
        f"{group[:64]:<64}  {len(members):<6}  {version:<24} {kind:<5}  {model:<14}  "
        f"{int(tps):<7}  {behind}"
    )
    return {
        "group": group,
        "count": len(members),
        "version": version,
        "type": kind,
        "model": model,
        "tps": tps,
        "diffTotal": behind,
    }
