"""The engines that keep rows of key-value states: in memory with one file, or in RocksDB."""
