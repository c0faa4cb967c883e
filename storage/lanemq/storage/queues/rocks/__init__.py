"""Consume queues in RocksDB, byte for byte those of RocketMQ 5.3.3.

Modules that hold rows need the package ``rocksdict``, which comes with ``lanemq[server]``; nothing
outside of this package imports those unless a store is configured to use RocksDB.
"""
