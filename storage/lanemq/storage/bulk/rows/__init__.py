"""Rows in RocksDB, made of queue files or of the log."""
