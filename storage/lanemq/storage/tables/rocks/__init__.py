"""The tables in RocksDB, and the rule by which JSON files and databases are brought together."""
