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
        sys_flag = int(fields["sysFlag"])
        commit = None
        if sys_flag & _COMMIT_OFFSET:
            commit = int(fields["commitOffset"])
            if commit >> 63:  # negative, or what Java could not keep
                PullMessage.from_fields(fields)
        brings = sys_flag & _SUBSCRIPTION
        return PullRequest(
            fields["consumerGroup"],
            fields["topic"],
            int(fields["queueId"]),
            int(fields["queueOffset"]),
            int(fields["maxMsgNums"]),
            sys_flag,
            frame.version,
            knows_logical_queues(frame),
            get(SEGMENT_FIELD),
            commit,
            int(get("suspendTimeoutMillis", "0")) if sys_flag & _SUSPEND else 0,
            get("subscription") if brings else None,
            get("expressionType"),
            0 if brings else int(get("subVersion", "0")),
        )
    except (KeyError, ValueError):
        PullMessage.from_fields(fields)  # says which field it is
        raise
