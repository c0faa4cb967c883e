"""The fields of a pull as a typed request, at whichever port it arrives."""

from typing import Final, final

import msgspec

from lanemq.wire import PullSysFlag, Version
from lanemq.wire.frame import JAVA, Frame
from lanemq.wire.headers import PullMessage
from lanemq.wire.logical import READER_FIELD, SEGMENT_FIELD

BROKER_NAME_FIELD: Final = "bname"
"""Ext field that all clients since 4.9.5 send, except 5.0.0-PREVIEW's, whose version number others
share."""

(
    _GROUP,
    _TOPIC,
    _QUEUE_ID,
    _QUEUE_OFFSET,
    _MAX_COUNT,
    _SYS_FLAG,
    _COMMITTED,
    _SUSPEND_MS,
    _SUB_VERSION,
    _SUBSCRIPTION_TEXT,
    _EXPRESSION_TYPE,
) = PullMessage.names(
    "consumer_group",
    "topic",
    "queue_id",
    "queue_offset",
    "max_msg_nums",
    "sys_flag",
    "commit_offset",
    "suspend_timeout_millis",
    "sub_version",
    "subscription",
    "expression_type",
)
_PREVIEW: Final = int(Version.V5_0_0)
_COMMIT_OFFSET: Final = PullSysFlag.COMMIT_OFFSET
_SUSPEND: Final = PullSysFlag.SUSPEND
_SUBSCRIPTION: Final = PullSysFlag.SUBSCRIPTION


@final
class PullRequest(msgspec.Struct, frozen=True, gc=False):
    """A pull of one message queue, or of a logical queue where a logical listener has it."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_count: int
    sys_flag: int
    version: int
    """The reader's protocol version."""
    is_aware: bool
    """True if the reader knows of logical queues, and translates offsets itself."""
    meant: str | None
    """The segment by which such a reader translates (``Segment.meant``); None where it is not
    known."""
    commit_offset: int | None
    """The offset to keep for the group; None for a pull that brings none."""
    suspend_ms: int
    """The time for which the pull may be parked."""
    subscription: str | None
    """The filter, where it comes with the pull; else that of the group's heartbeats counts."""
    expression_type: str | None
    sub_version: int
    """The version of the group's subscription that the reader knows, where it brings none."""

    @property
    def may_wait(self) -> bool:
        """True if the reader lets the pull be parked."""
        return self.sys_flag & _SUSPEND != 0


def knows_logical_queues(frame: Frame) -> bool:
    """Return whether the sender of a pull or a commit reads logical queues segment by segment."""
    return frame.fields.get(READER_FIELD) == "true" or (
        frame.version == _PREVIEW
        and frame.language == JAVA
        and BROKER_NAME_FIELD not in frame.fields
    )


def read_pull_request(frame: Frame) -> PullRequest:
    """Read the fields of a request. Raises ``RemoteProtocolError``, which names the field."""
    fields = frame.fields
    get = fields.get
    try:
        sys_flag = int(fields[_SYS_FLAG])
        commit = None
        if sys_flag & _COMMIT_OFFSET:
            commit = int(fields[_COMMITTED])
            if commit >> 63:  # negative, or what Java could not keep
                PullMessage.from_fields(fields)
        brings = sys_flag & _SUBSCRIPTION
        return PullRequest(
            fields[_GROUP],
            fields[_TOPIC],
            int(fields[_QUEUE_ID]),
            int(fields[_QUEUE_OFFSET]),
            int(fields[_MAX_COUNT]),
            sys_flag,
            frame.version,
            knows_logical_queues(frame),
            get(SEGMENT_FIELD),
            commit,
            int(get(_SUSPEND_MS, "0")) if sys_flag & _SUSPEND else 0,
            get(_SUBSCRIPTION_TEXT) if brings else None,
            get(_EXPRESSION_TYPE),
            0 if brings else int(get(_SUB_VERSION, "0")),
        )
    except (KeyError, ValueError):
        PullMessage.from_fields(fields)  # says which field it is
        raise
