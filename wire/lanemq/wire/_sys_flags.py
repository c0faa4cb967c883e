"""Bits of the flag words. Plain integers: they are tested for every message."""

from typing import Final, final


@final
class SysFlag:
    """The ``sysFlag`` of a message. Source: RocketMQ 5.3.3, MessageSysFlag."""

    COMPRESSED: Final = 0x1
    MULTI_TAGS: Final = 0x2
    TRANSACTION_PREPARED: Final = 0x4
    TRANSACTION_COMMIT: Final = 0x8
    TRANSACTION_ROLLBACK: Final = 0xC
    TRANSACTION_MASK: Final = 0xC
    BORN_HOST_V6: Final = 0x10
    STORE_HOST_V6: Final = 0x20
    HOSTS_V6_MASK: Final = 0x30
    NEED_UNWRAP: Final = 0x40
    INNER_BATCH: Final = 0x80
    COMPRESSION_LZ4: Final = 0x100
    COMPRESSION_ZSTD: Final = 0x200
    COMPRESSION_ZLIB: Final = 0x300
    COMPRESSION_MASK: Final = 0x700


@final
class PullSysFlag:
    """The ``sysFlag`` of a pull request. Source: RocketMQ 4.9.8, PullSysFlag."""

    COMMIT_OFFSET: Final = 0x1
    SUSPEND: Final = 0x2
    SUBSCRIPTION: Final = 0x4
    CLASS_FILTER: Final = 0x8
    LITE_PULL: Final = 0x10


@final
class TopicSysFlag:
    """The ``topicSysFlag`` of a topic. Source: RocketMQ 4.9.8, TopicSysFlag."""

    UNIT: Final = 0x1
    UNIT_SUB: Final = 0x2


@final
class Permission:
    """Permissions of a topic's queues or of a broker. Source: 4.9.8, PermName."""

    INHERIT: Final = 0x1
    WRITE: Final = 0x2
    READ: Final = 0x4
    READ_WRITE: Final = 0x6
    PRIORITY: Final = 0x8


def permission_text(perm: int) -> str:
    """Return ``RW-`` and the like, as tools print it. Source: 4.9.8, PermName.perm2String."""
    return "".join(
        letter if perm & bit else "-"
        for letter, bit in (
            ("R", Permission.READ),
            ("W", Permission.WRITE),
            ("X", Permission.INHERIT),
        )
    )
