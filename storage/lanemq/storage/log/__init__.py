"""The commit log: records, the files they lie in, what writes, reads, flushes and cleans it."""
