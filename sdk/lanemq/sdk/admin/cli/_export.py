"""exportMetadata: the topics and groups of a broker or a cluster, in a file.

Source: RocketMQ 5.3.3, ExportMetadataCommand.
"""

from dataclasses import replace
from pathlib import Path

import click

from lanemq.local import make_directories, user_directory, user_path, write_file
from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic
from lanemq.wire.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
)

from ...net._client import now_ms
from .._client import AdminClient
from .command._command import Output, command, fail
from .command._text import pretty

DIRECTORY = "export"
TOPICS, GROUPS, BOTH = "topic.json", "subscriptionGroup.json", "metadata.json"


@command("exportMetadata")
@click.option("-c", "--clusterName", "cluster", help="Export from all masters of this cluster.")
@click.option("-b", "--brokerAddr", "broker", help="Export from this broker, with -t or -g.")
@click.option(
    "-f",
    "--filePath",
    "directory",
    type=click.Path(path_type=Path),
    help=f"The directory of the file.  [default: {user_path(DIRECTORY)}]",
)
@click.option("-t", "--topic", "topics_only", is_flag=True, help="Topics only.")
@click.option("-g", "--subscriptionGroup", "groups_only", is_flag=True, help="Groups only.")
@click.option(
    "-s", "--specialTopic", "special", is_flag=True, help="Retry and dead-letter topics, too."
)
async def export_metadata(
    admin: AdminClient,
    out: Output,
    *,
    cluster: str | None,
    broker: str | None,
    directory: Path | None,
    topics_only: bool,
    groups_only: bool,
    special: bool,
) -> object:
    """Write topics and groups, the brokers' own left out, into a file."""
    if (broker is None) == (cluster is None):
        fail("give either -b BROKER_ADDRESS or -c CLUSTER_NAME (`clusterList` shows both)")
    value: object
    if broker is not None:
        name, value = await _of_broker(
            admin, broker.strip(), topics=topics_only, groups=groups_only, special=special
        )
    else:
        assert cluster is not None
        addresses = await admin.masters(cluster.strip())
        name, value = await _of_cluster(
            admin, addresses, topics=topics_only, groups=groups_only, special=special
        )
    path = _write(directory, name, pretty(value))
    out.line(f"export {path} success")
    return value


def _write(directory: Path | None, name: str, text: str) -> Path:
    try:
        if directory is None:
            directory = user_directory(DIRECTORY)
        else:
            make_directories(directory)
        write_file(directory / name, text.encode())
    except OSError as error:
        fail(f"cannot write {error.filename or name}: {error.strerror}")
    return directory / name


async def _of_broker(
    admin: AdminClient, address: str, *, topics: bool, groups: bool, special: bool
) -> tuple[str, object]:
    if topics:
        wrapper = await admin.topic_configs(address)
        table = await _topics(admin, address, wrapper, special=special)
        return TOPICS, replace(wrapper, topic_config_table=table)
    if not groups:
        fail("with -b give -t for topics or -g for groups; -c exports both")
    found = await admin.groups(address)
    return GROUPS, replace(found, subscription_group_table=_groups(found))


async def _topics(
    admin: AdminClient, address: str, wrapper: TopicConfigWrapper, *, special: bool
) -> dict[str, TopicConfig]:
    own = set(await admin.system_topics(address))
    hidden = () if special else (RETRY_PREFIX, DLQ_PREFIX)
    return {
        name: config
        for name, config in wrapper.topic_config_table.items()
        if name not in own
        and not is_system_topic(name)
        and not name.startswith(hidden)
        and 0 <= config.perm < 8
    }


def _groups(wrapper: SubscriptionGroupWrapper) -> dict[str, SubscriptionGroupConfig]:
    table = wrapper.subscription_group_table
    return {name: config for name, config in table.items() if not is_system_group(name)}


async def _of_cluster(
    admin: AdminClient, addresses: list[str], *, topics: bool, groups: bool, special: bool
) -> tuple[str, object]:
    """Export from several brokers; queues of one topic on two of them add up."""
    all_topics: dict[str, TopicConfig] = {}
    all_groups: dict[str, SubscriptionGroupConfig] = {}
    for address in addresses:
        if not groups or topics:
            wrapper = await admin.topic_configs(address)
            table = await _topics(admin, address, wrapper, special=special)
            for name, config in table.items():
                known = all_topics.get(name)
                all_topics[name] = _both_topics(known, config) if known is not None else config
        if not topics:
            for name, group in _groups(await admin.groups(address)).items():
                found = all_groups.get(name)
                all_groups[name] = _both_groups(found, group) if found is not None else group
    value: dict[str, object] = {"exportTime": now_ms()}
    if not groups or topics:
        value["topicConfigTable"] = all_topics
    if not topics:
        value["subscriptionGroupTable"] = all_groups
    return TOPICS if topics else GROUPS if groups else BOTH, value


def _both_topics(first: TopicConfig, second: TopicConfig) -> TopicConfig:
    return replace(
        second,
        read_queue_nums=first.read_queue_nums + second.read_queue_nums,
        write_queue_nums=first.write_queue_nums + second.write_queue_nums,
    )


def _both_groups(
    first: SubscriptionGroupConfig, second: SubscriptionGroupConfig
) -> SubscriptionGroupConfig:
    return replace(second, retry_queue_nums=first.retry_queue_nums + second.retry_queue_nums)
