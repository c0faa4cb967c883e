"""The rows of key-value states as bytes, and the engines that keep them: in memory with one file,
or in RocksDB.
"""
