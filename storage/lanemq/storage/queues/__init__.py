"""Consume queues: queue offset to place in the log; in files and in RocksDB."""
