"""``lanemq admin``: mqadmin's commands, under mqadmin's names."""

import click

from ._cluster import broker_status, cluster_list
from ._consumer import consumer_progress, update_sub_group
from ._dead_letters import dead_letters, resend
from ._export import export_metadata
from ._message import (
    print_messages,
    query_by_id,
    query_by_key,
    query_by_unique_key,
)
from ._metadata import export_metadata_in_rocksdb, rocksdb_config_to_json
from ._offset import reset_offset_by_time
from ._proxy import proxy_status
from ._rocksdb import check_rocksdb
from ._send import send_message
from ._topic import delete_topic, topic_list, topic_route, topic_status, update_topic
from .command._command import Commands
from .logical._lost import pass_lost_messages
from .logical._mapping import delete_mapping, query_mapping, update_mapping, update_number
from .logical._migration import abort_migration, append_superseded, migrate_queue, resume_migration
from .logical._spread import balance_logical_queues, drain_broker, forget_broker

__all__ = ["admin"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def admin() -> None:
    """Administer a cluster, of lanemq or of Apache RocketMQ.

    Commands, options and columns are those of mqadmin 4.9; --json prints a JSON value instead.
    """


for _command in (
    update_topic,
    delete_topic,
    topic_list,
    topic_route,
    topic_status,
    cluster_list,
    broker_status,
    proxy_status,
    update_sub_group,
    consumer_progress,
    dead_letters,
    resend,
    query_by_id,
    query_by_key,
    query_by_unique_key,
    print_messages,
    send_message,
    reset_offset_by_time,
    update_mapping,
    delete_mapping,
    query_mapping,
    update_number,
    migrate_queue,
    resume_migration,
    abort_migration,
    append_superseded,
    drain_broker,
    forget_broker,
    balance_logical_queues,
    pass_lost_messages,
    check_rocksdb,
    rocksdb_config_to_json,
    export_metadata,
    export_metadata_in_rocksdb,
):
    admin.add_command(_command)
