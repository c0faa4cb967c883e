"""Headers of the operator's requests about how a broker keeps its store."""

from typing import final

from .._numbers import Long
from ._header import Header


@final
class CheckRocksdbCqWriteProgress(Header, frozen=True):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS 354; ``topic`` is empty for all topics.

    ``check_store_time``: messages stored before it, in milliseconds since 1970, need not be in
    RocksDB; requests of 5.3.1 do not have it. ``wait_result``, lanemq's own, asks for the result
    as the answer instead of in the broker's log.
    Source: RocketMQ 5.3.1 and 5.3.3, CheckRocksdbCqWriteProgressRequestHeader.
    """

    topic: str
    check_store_time: Long | None = None
    wait_result: bool | None = None


@final
class ExportRocksdbConfigToJson(Header, frozen=True):
    """EXPORT_ROCKSDB_CONFIG_TO_JSON 355; ``config_type`` as ``topics;consumerOffsets;``.

    Source: RocketMQ 5.3.3, ExportRocksDBConfigToJsonRequestHeader.
    """

    config_type: str
