"""Stored messages, their properties and ids, and the batches they come in."""

from .._names import BROKER_STAGE_PREFIX, STAGE_PREFIX
from ._batch import (
    BATCH_ENTRY,
    BatchEntry,
    count_batch,
    decode_batch,
    encode_batch,
)
from ._compression import (
    COMPRESSION_LEVEL,
    MAX_BODY_BYTES,
    BodyTooLong,
    compress_body,
    decompress_body,
)
from ._ids import (
    UniqueKeys,
    decode_offset_id,
    encode_offset_id,
    encode_offset_ids,
    unique_key_time_ms,
)
from ._many_messages import check_number, decode_messages, iter_messages
from ._message import (
    StoredMessage,
    body_crc,
    decode_message,
    record_content,
    record_outline,
    record_properties,
    record_size,
)
from ._message_layout import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_BYTES,
    RECORD_LAYOUTS,
)
from ._message_writer import (
    encode_batch_records,
    encode_message,
    encode_record,
)
from ._properties import (
    Property,
    decode_properties,
    encode_properties,
    get_property,
    remove_property,
    set_property,
)
from ._recall_handle import RecallHandle
from ._stages import (
    STAGE_OFFSET_MAX,
    STAGED_QUEUE_OFFSET_MAX,
    StageRecord,
    Stages,
    group_of_stage_group,
    is_stage_group,
    stage_group,
)

__all__ = [
    "BATCH_ENTRY",
    "BROKER_STAGE_PREFIX",
    "COMPRESSION_LEVEL",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "MAX_BODY_BYTES",
    "MAX_PROPERTIES_BYTES",
    "RECORD_LAYOUTS",
    "STAGED_QUEUE_OFFSET_MAX",
    "STAGE_OFFSET_MAX",
    "STAGE_PREFIX",
    "BatchEntry",
    "BodyTooLong",
    "Property",
    "RecallHandle",
    "StageRecord",
    "Stages",
    "StoredMessage",
    "UniqueKeys",
    "body_crc",
    "check_number",
    "compress_body",
    "count_batch",
    "decode_batch",
    "decode_message",
    "decode_messages",
    "decode_offset_id",
    "decode_properties",
    "decompress_body",
    "encode_batch",
    "encode_batch_records",
    "encode_message",
    "encode_offset_id",
    "encode_offset_ids",
    "encode_properties",
    "encode_record",
    "get_property",
    "group_of_stage_group",
    "is_stage_group",
    "iter_messages",
    "record_content",
    "record_outline",
    "record_properties",
    "record_size",
    "remove_property",
    "set_property",
    "stage_group",
    "unique_key_time_ms",
]
