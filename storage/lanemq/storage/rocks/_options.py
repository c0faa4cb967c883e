"""The options of a consume queue database.

What is written must stay readable for RocksDB 8.4, which comes with RocketMQ 5.3.3: so tables
have format 5 and no newer feature is used, and the options that show on the disk are those of
that broker. Options that cost only memory are smaller here.
Source: RocketMQ 5.3.3, RocksDBOptionsFactory.
"""

from typing import Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    ChecksumType,
    DataBlockIndexType,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    UniversalCompactOptions,
)

TABLE_FORMAT: Final = 5
BLOCK_BYTES: Final = 32 << 10
BLOOM_BITS: Final = 16
METADATA_BLOCK_BYTES: Final = 4 << 10
UNIT_MEMTABLE_BYTES: Final = 32 << 20
BOUND_MEMTABLE_BYTES: Final = 16 << 20
OPEN_FILES_MAX: Final = 256
KEPT_LOGS: Final = 5


def table_options() -> BlockBasedOptions:
    """Return the layout of tables on the disk, for both families."""
    tables = BlockBasedOptions()
    tables.set_format_version(TABLE_FORMAT)
    tables.set_checksum_type(ChecksumType.crc32c())
    tables.set_block_size(BLOCK_BYTES)
    tables.set_bloom_filter(BLOOM_BITS, False)
    # A filter of a whole table, which for a million queues is some megabytes, is larger than a
    # shard of the cache: it would be read again for every look. Its parts are not.
    tables.set_partition_filters(True)
    tables.set_index_type(BlockBasedIndexType.two_level_index_search())
    tables.set_metadata_block_size(METADATA_BLOCK_BYTES)
    tables.set_pin_top_level_index_and_filter(True)
    return tables


def database_options() -> Options:
    """Return the options of the database, common to both families."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_keep_log_file_num(KEPT_LOGS)
    options.set_max_background_jobs(2)
    options.set_level_compaction_dynamic_level_bytes(False)
    return options


def unit_options(cache: Cache | None = None) -> Options:
    """Return the options of the family ``units``, and of tables to be ingested into it."""
    options = database_options()
    tables = table_options()
    tables.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    tables.set_data_block_hash_ratio(0.75)
    _share(tables, cache)
    options.set_block_based_table_factory(tables)
    options.set_write_buffer_size(UNIT_MEMTABLE_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    options.set_compaction_style(DBCompactionStyle.universal())
    universal = UniversalCompactOptions()
    universal.size_ratio = 100
    universal.max_size_amplification_percent = 25
    options.set_universal_compaction_options(universal)
    return options


def bound_options(cache: Cache) -> Options:
    """Return the options of the family ``bounds``."""
    options = database_options()
    tables = table_options()
    _share(tables, cache)
    options.set_block_based_table_factory(tables)
    options.set_write_buffer_size(BOUND_MEMTABLE_BYTES)
    options.set_compression_type(DBCompressionType.none())
    return options


def _share(tables: BlockBasedOptions, cache: Cache | None) -> None:
    if cache is not None:
        tables.set_block_cache(cache)
        # Parts of filters are in the cache all the same. The whole ones, of tables that 5.3.3
        # wrote, are kept outside of it, as that broker keeps them.
        tables.set_cache_index_and_filter_blocks(False)
