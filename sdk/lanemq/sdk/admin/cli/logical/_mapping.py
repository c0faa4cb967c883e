"""updateTopicLogicalQueueMapping, deleteTopicLogicalQueueMapping,
queryTopicLogicalQueueMapping and updateTopicLogicalQueueNum.

Source: RocketMQ 5.0.0-PREVIEW, the commands of these names.
"""

import click

from lanemq.wire import fastjson
from lanemq.wire.logical import Segment, SegmentState

from ..._client import AdminClient
from ...logical._indices import claimed_steps
from ...logical._plan import MapQueue, OpenSegment, plan_mapping, plan_number
from ...logical._survey import Survey, survey
from ..command._command import Output, chosen_masters, command, fail
from ._chains import merge_order, write_chains

TOPIC = click.option("-t", "--topic", required=True, help="Topic name.")
CLUSTER = click.option("-c", "--clusterName", "cluster", help="All masters of this cluster.")


@command("updateTopicLogicalQueueMapping")
@TOPIC
@click.option("-q", "--queue", "queue_id", type=int, help="With -b: the queue's id there.")
@click.option("-i", "--index", type=int, help="With -b: its logical queue; below 0: none.")
@click.option("-b", "--broker", "broker", help="Broker address.")
@click.option("-f", "--force", is_flag=True, help="With -i below 0: although it has messages.")
@CLUSTER
async def update_mapping(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    queue_id: int | None,
    index: int | None,
    broker: str | None,
    force: bool,
    cluster: str | None,
) -> object:
    """Turn one queue of a topic, or all that are not logical yet, into logical queues."""
    if force and (broker is None or index is None or index >= 0):
        fail("--force is for taking one queue out: with -b, -q, and -i below 0")
    if broker is not None:
        if queue_id is None and index is None:
            fail("brokerAddr specified but no logicalQueueIndex and queueId found")
        if queue_id is None or index is None:
            fail("logicalQueueIndex and queueId must be specified together.")
        remark = await admin.map_queue(broker.strip(), topic, queue_id, index, force=force)
        what = f"logical queue {index}" if index >= 0 else "not a logical queue"
        out.line(f"queue {queue_id} at {broker} is {what}: {remark}")
        return {"broker": broker, "queueId": queue_id, "index": index, "remark": remark}
    if cluster is None:
        fail("give -c CLUSTER_NAME to map all queues, or -b BROKER_ADDRESS -q QUEUE_ID -i INDEX")
    steps = await map_cluster(admin, out, topic, cluster.strip())
    return [
        {"broker": step.address, "queueId": step.queue_id, "index": step.index} for step in steps
    ]


async def map_cluster(admin: AdminClient, out: Output, topic: str, cluster: str) -> list[MapQueue]:
    """Map every unmapped queue of the cluster, and show all logical queues."""
    found = await _whole(admin, topic, cluster)
    if not any(broker.queues for broker in found.view.brokers):
        fail(f"topic {topic!r} is on no master of cluster {cluster!r}: `updateTopic` makes it")
    steps = await claimed_steps(admin.claim_indices, found.view, plan_mapping(found.view))
    for step in steps:
        remark = await admin.map_queue(step.address, topic, step.queue_id, step.index)
        where = f"{step.broker} ({step.address})"
        out.line(f"queue {step.queue_id} at {where} is logical queue {step.index}: {remark}")
    if not steps:
        out.line(f"all queues of {topic} are logical queues already")
    after = await survey(admin, topic, cluster=cluster)
    write_chains(out, after.view.chains().values())
    return steps


async def _whole(admin: AdminClient, topic: str, cluster: str) -> Survey:
    """Ask all masters; nothing is planned while one is silent."""
    found = await survey(admin, topic, cluster=cluster)
    if found.away:
        silent = "; ".join(f"{name}: {error}" for name, error in sorted(found.away.items()))
        fail(f"not all brokers of cluster {cluster!r} answer, so nothing was changed: {silent}")
    return found


@command("deleteTopicLogicalQueueMapping")
@TOPIC
@CLUSTER
@click.option("-b", "--brokerAddr", "broker", help="Broker address.")
async def delete_mapping(
    admin: AdminClient, out: Output, *, topic: str, cluster: str | None, broker: str | None
) -> object:
    """End the logical queues of a topic, where no queue is mapped any more."""
    done: dict[str, str] = {}
    for address in sorted(await chosen_masters(admin, broker, cluster)):
        done[address] = await admin.delete_mapping(address, topic)
        out.line(f"delete logical queue mapping of {topic} at {address}: {done[address]}")
    return done


@command("queryTopicLogicalQueueMapping")
@TOPIC
@click.option("-b", "--brokerAddr", "broker", help="Broker address.")
@CLUSTER
@click.option("-m", "--merge", is_flag=True, help="Show the answers of all brokers, merged.")
async def query_mapping(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    broker: str | None,
    cluster: str | None,
    merge: bool,
) -> object:
    """Show the logical queues of a topic as its brokers report them, as one line of JSON."""
    addresses = sorted(await chosen_masters(admin, broker, cluster))
    found = {address: await admin.logical_queues(address, topic) for address in addresses}
    if all(queues is None for queues in found.values()):
        fail(f"topic {topic!r} has no logical queues at {', '.join(addresses)}")
    value: object
    if merge:
        segments: dict[int, set[Segment]] = {}
        for queues in found.values():
            for index, chain in (queues or {}).items():
                segments.setdefault(index, set()).update(chain)
        value = [sorted(segments[index], key=merge_order) for index in sorted(segments)]
    else:
        value = {
            address: None if queues is None else queues.to_json()
            for address, queues in found.items()
            if queues is not None
        }
    out.line(fastjson.dumps(value, standard=True).decode())
    return value


@command("updateTopicLogicalQueueNum", n_is_taken=True)
@TOPIC
@click.option("-c", "--clusterName", "cluster", required=True, help="Cluster name.")
@click.option(
    "-n",
    "--num",
    "number",
    type=click.IntRange(min=0),
    required=True,
    help="Number of logical queues.",
)
async def update_number(
    admin: AdminClient, out: Output, *, topic: str, cluster: str, number: int
) -> object:
    """Change the number of logical queues that can be written to.

    The name server is given by --namesrvAddr or the environment here: -n is the number.
    """
    found = await _whole(admin, topic, cluster.strip())
    if not found.view.is_logical:
        fail(
            f"topic {topic!r} has no logical queues: `updateTopicLogicalQueueMapping -t {topic} "
            f"-c {cluster}` makes them"
        )
    try:
        steps = plan_number(found.view, number)
    except ValueError as error:
        fail(str(error))
    steps = await claimed_steps(admin.claim_indices, found.view, steps)
    for step in steps:
        if isinstance(step, OpenSegment):
            segment = await _open(admin, topic, step)
            out.line(
                f"logical queue {step.index}: queue {segment.queue_id} at {step.broker}, from "
                f"logical offset {segment.delta}"
            )
        else:
            segment = await admin.seal(step.address, step.segment)
            out.line(
                f"logical queue {segment.logical_index}: closed at {step.broker}, at logical "
                f"offset {segment.next_delta}"
            )
    if not steps:
        out.line(f"{topic} has {number} logical queues already")
    after = await survey(admin, topic, cluster=cluster.strip())
    chains = after.view.chains()
    write_chains(out, chains.values())
    return list(chains.values())


async def _open(admin: AdminClient, topic: str, step: OpenSegment) -> Segment:
    state = SegmentState.NORMAL
    if step.queue_id is None:
        return await admin.create_queue(step.address, topic, step.index, state, delta=step.delta)
    return await admin.reuse_queue(
        step.address, topic, step.queue_id, step.index, state, delta=step.delta
    )
