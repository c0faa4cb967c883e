"""updateTopic, deleteTopic, topicList, topicRoute, topicStatus.

Source: RocketMQ 4.9.8, UpdateTopicSubCommand, DeleteTopicSubCommand, TopicListSubCommand,
TopicRouteSubCommand, TopicStatusSubCommand.
"""

import click

from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, permission_text
from lanemq.wire.bodies import QueueData, RouteData, TopicConfig

from ..._errors import LanemqError
from .._client import AdminClient, addresses_of
from .command._command import Output, chosen_masters, command, fail
from .command._text import boolean, moment, pretty
from .logical._mapping import map_cluster

ROUTE_COLUMNS = "{:<45} {:<32} {:<50} {:<10} {:<11} {:<5}"


@command("updateTopic")
@click.option("-b", "--brokerAddr", "broker", help="Create the topic on this broker.")
@click.option("-c", "--clusterName", "cluster", help="Create the topic on all masters of it.")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option(
    "-r",
    "--readQueueNums",
    "read_queues",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Queues that consumers read.",
)
@click.option(
    "-w",
    "--writeQueueNums",
    "write_queues",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Queues that producers write.",
)
@click.option(
    "-p",
    "--perm",
    type=click.IntRange(0, 7),
    default=6,
    show_default=True,
    help="2: write, 4: read, 6: both.",
)
@click.option("-o", "--order", default=False, show_default=True, help="Keep the order of messages.")
@click.option("-u", "--unit", default=False, help="The topic belongs to a unit.")
@click.option("-s", "--hasUnitSub", "unit_sub", default=False, help="A unit reads it.")
@click.option(
    "-a",
    "--attributes",
    help="Changes of attributes (5.x), such as +message.type=FIFO,-reserve.time.",
)
@click.option(
    "-lq", "--logicalQueue", "logical", default=False, help="Its queues are logical ones."
)
async def update_topic(
    admin: AdminClient,
    out: Output,
    *,
    broker: str | None,
    cluster: str | None,
    topic: str,
    read_queues: int,
    write_queues: int,
    perm: int,
    order: bool,
    unit: bool,
    unit_sub: bool,
    attributes: str | None,
    logical: bool,
) -> object:
    """Create a topic, or change it."""
    if logical and broker is not None:
        fail("-lq and -b can not be used together.")
    config = TopicConfig(
        topic_name=topic.strip(),
        read_queue_nums=read_queues,
        write_queue_nums=write_queues,
        perm=perm,
        topic_sys_flag=int(unit) | int(unit_sub) << 1,
        order=order,
    )
    addresses = await chosen_masters(admin, broker, cluster)
    for address in addresses:
        await admin.put_topic(address, config, attributes=attributes)
    order_config = None
    if order:
        names = [await admin.broker_name(address) for address in addresses]
        wanted = ";".join(f"{name}:{write_queues}" for name in names)
        order_config = await admin.add_order_config(topic, wanted, replace=cluster is not None)
        kind = "cluster" if cluster is not None else "broker"
        out.line(f"set {kind} orderConf. isOrder=true, orderConf=[{wanted}]")
    for address in addresses:
        out.line(f"create topic to {address} success.")
    out.line(
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={read_queues}, "
        f"writeQueueNums={write_queues}, perm={permission_text(perm)}, "
        f"topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={boolean(order)}]"
    )
    if logical and cluster is not None:
        await map_cluster(admin, out, config.topic_name, cluster.strip())
    return {
        "brokers": addresses,
        "orderConf": order_config,
        "topicConfig": config,
    }


@command("deleteTopic")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option("-c", "--clusterName", "cluster", required=True, help="Delete it from this cluster.")
async def delete_topic(admin: AdminClient, out: Output, *, topic: str, cluster: str) -> object:
    """Delete a topic from the brokers of a cluster and from the name servers."""
    addresses = await admin.masters(cluster)
    for address in addresses:
        await admin.delete_topic(address, topic)
    out.line(f"delete topic [{topic}] from cluster [{cluster}] success.")
    await admin.delete_route(topic)
    out.line(f"delete topic [{topic}] from NameServer success.")
    return {"topic": topic, "cluster": cluster, "brokers": addresses}


@command("topicList")
@click.option("-c", "--clusterModel", "with_groups", is_flag=True, help="Cluster and groups too.")
async def topic_list(admin: AdminClient, out: Output, *, with_groups: bool) -> object:
    """List the topics that the name server knows."""
    topics = await admin.topics()
    if not with_groups:
        for topic in topics:
            out.line(topic)
        return topics
    out.line(f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}")
    rows = []
    for topic in topics:
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        cluster, groups = await _whereabouts(admin, topic)
        rows.append({"cluster": cluster, "topic": topic, "groups": groups})
        for group in groups or [""]:
            out.line(f"{cluster[:20]:<20}  {topic[:64]:<64}  {group[:64]:<64}")
    return rows


async def _whereabouts(admin: AdminClient, topic: str) -> tuple[str, list[str]]:
    """Return the cluster and the groups of a topic; a topic may go while we ask."""
    try:
        route = await admin.route(topic)
        groups: set[str] = set()
        for address in addresses_of(route):
            groups.update(await admin.groups_of_topic(address, topic))
        return next((broker.cluster for broker in route.broker_datas), ""), sorted(groups)
    except LanemqError:
        return "", []


@command("topicRoute")
@click.option("-t", "--topic", required=True, help="Topic name.")
@click.option("-l", "--list", "as_list", is_flag=True, help="Print a table.")
async def topic_route(admin: AdminClient, out: Output, *, topic: str, as_list: bool) -> object:
    """Show the brokers and queues of a topic; of a static topic of 5.x with -l also its mapping."""
    route = await admin.route(topic)
    if as_list:
        _write_route(out, route)
    else:
        out.block(pretty(_as_printed(route)))
    return route


def _as_printed(route: RouteData) -> dict[str, object]:
    """Return the route without the old spelling of a member, which mqadmin does not print."""
    queues = [data.to_json() for data in route.queue_datas]
    for members in queues:
        for old_spelling in QueueData.OTHER_SPELLINGS:
            members.pop(old_spelling, None)
    return route.to_json() | {"queueDatas": queues}


def _write_route(out: Output, route: RouteData) -> None:
    queues = {data.broker_name: data for data in route.queue_datas}
    out.line(
        ROUTE_COLUMNS.format(
            "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"
        )
    )
    for broker in sorted(route.broker_datas, key=lambda broker: broker.broker_name):
        data = queues.get(broker.broker_name)
        if data is None:
            continue
        addresses = ", ".join(
            f"{number}={address}" for number, address in sorted(broker.broker_addrs.items())
        )
        out.line(
            ROUTE_COLUMNS.format(
                broker.cluster,
                broker.broker_name,
                f"{{{addresses}}}",
                data.read_queue_nums,
                data.write_queue_nums,
                data.perm,
            )
        )
    out.line("-" * 158)
    reads = sum(data.read_queue_nums for data in queues.values())
    writes = sum(data.write_queue_nums for data in queues.values())
    out.line(ROUTE_COLUMNS.format("Total:", len(queues), "", reads, writes, ""))
    for queue_id, place in route.static_queues().items():
        out.line(f"Static topic: queue {queue_id} is queue {place.queue_id} of {place.broker_name}")


@command("topicStatus")
@click.option("-t", "--topic", required=True, help="Topic name.")
async def topic_status(admin: AdminClient, out: Output, *, topic: str) -> object:
    """Show the bounds of each queue and when it was last written."""
    status = await admin.topic_status(topic)
    out.line(
        f"{'#Broker Name':<32}  {'#QID':<4}  {'#Min Offset':<20}  {'#Max Offset':<20}    "
        "#Last Updated"
    )
    rows = []
    for queue, bounds in sorted(status.offset_table.items()):
        last_ms = bounds.last_update_timestamp
        out.line(
            f"{queue.broker_name[:32]:<32}  {queue.queue_id:<4}  {bounds.min_offset:<20}  "
            f"{bounds.max_offset:<20}    {moment(last_ms) if last_ms > 0 else ''}"
        )
        rows.append(
            {
                "brokerName": queue.broker_name,
                "queueId": queue.queue_id,
                "minOffset": bounds.min_offset,
                "maxOffset": bounds.max_offset,
                "lastUpdateTimestamp": last_ms,
            }
        )
    return rows
