"""The commit log: records, the files they lie in, and what writes, flushes, checks and cuts them."""
