"""Bodies about a broker's store."""

import enum
from dataclasses import dataclass
from typing import final

from ._body import Body


@final
class CheckStatus(enum.IntEnum):
    """The outcome of a check. Source: RocketMQ 5.3.3, CheckRocksdbCqWriteResult.CheckStatus."""

    OK = 0
    NOT_OK = 1
    IN_PROGRESS = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class CheckRocksdbCqWriteResult(Body):
    """The result of comparing RocksDB queues with file queues (request 354).

    ``safe_to_switch``, lanemq's own, tells whether to go on with RocksDB alone would lose
    nothing. Source: RocketMQ 5.3.3, CheckRocksdbCqWriteResult.
    """

    check_result: str | None = None
    check_status: int = CheckStatus.OK
    safe_to_switch: bool | None = None


@dataclass(frozen=True, slots=True)
class CheckRocksdbCqWriteProgressBody(Body):
    """The same as 5.3.1 says it.

    Source: RocketMQ 5.3.1, CheckRocksdbCqWriteProgressResponseBody.
    """

    diff_result: str | None = None
