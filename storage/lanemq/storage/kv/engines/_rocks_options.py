"""The options of the RocksDB of keys, and what its damage is known by."""

import errno
import re
from typing import Final, final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
)

from ..._errors import is_full

CACHE_BYTES: Final = 32 << 20
MEMTABLE_BYTES: Final = 256 << 20
BLOOM_BITS: Final = 10
METADATA_BYTES: Final = 8 << 10
OPEN_FILES_MAX: Final = 256
KEPT_LOGS: Final = 3

_DAMAGE: Final = re.compile(r"Corruption|IO error")
_EXHAUSTED: Final = "Too many open files"


def is_damage(error: OSError) -> bool:
    """Return whether an error says that files are damaged, or that the disk cannot read them."""
    text = error.strerror or ""
    return not is_full(error) and _EXHAUSTED not in text and bool(_DAMAGE.search(text))


def new_options(*, compacts: bool) -> Options:
    """Return the options of a database, which merges its files if it ``compacts``."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_keep_log_file_num(KEPT_LOGS)
    options.set_max_background_jobs(2)
    options.set_disable_auto_compactions(not compacts)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(CACHE_BYTES))
    # Index and filter of a table in pieces: as a whole they are larger than a part of the cache,
    # and would be read again, megabytes, for every key.
    tables.set_index_type(BlockBasedIndexType.two_level_index_search())
    tables.set_partition_filters(True)
    tables.set_metadata_block_size(METADATA_BYTES)
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_top_level_index_and_filter(True)
    tables.set_bloom_filter(BLOOM_BITS, False)
    options.set_block_based_table_factory(tables)
    return options


def merges(database: Rdict, family: Rdict) -> bool:
    """Merge all files of a family of a database; returns whether that can be done.

    It reads the blocks of rows that were deleted, too, which no other read does. The database
    takes no writes any more where a family cannot be merged.
    """
    failures = "rocksdb.background-errors"  # the call itself tells nothing
    before = database.property_int_value(failures)
    every = CompactOptions()
    every.set_bottommost_level_compaction(BottommostLevelCompaction.force())
    family.compact_range(None, None, every)
    return bool(database.property_int_value(failures) == before)


@final
class _Closed:
    """A database after it was closed: everything fails."""

    def __getattr__(self, name: str) -> object:
        raise OSError(errno.EBADF, "the database of keys is closed")


CLOSED: Final = _Closed()
