"""The units of consume queues, in files and in RocksDB."""

from typing import Final, NamedTuple

from .._layouts import QUEUE_UNIT_FIELDS

pack_unit: Final = QUEUE_UNIT_FIELDS.pack
unpack_unit: Final = QUEUE_UNIT_FIELDS.unpack_from
iter_units: Final = QUEUE_UNIT_FIELDS.iter_unpack


class Unit(NamedTuple):
    """A message's position and size in the commit log, and the hash of its tags."""

    log_position: int
    size_bytes: int
    tags_code: int
