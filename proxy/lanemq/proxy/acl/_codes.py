"""Request codes that both kinds of accounts take for the same."""

from typing import Final

from lanemq.wire import RequestCode as Code

LOGICAL_QUEUE_CHANGES: Final = (
    Code.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING,
    Code.SEAL_TOPIC_LOGICAL_QUEUE,
    Code.REUSE_TOPIC_LOGICAL_QUEUE,
    Code.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE,
    Code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE,
    Code.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT,
    Code.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY,
    Code.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING,
    Code.APPEND_SUPERSEDED_MESSAGES,
    Code.CLAIM_LOGICAL_INDICES,
)
"""Requests that change where the messages of logical queues are."""
