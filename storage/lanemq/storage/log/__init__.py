"""The commit log: records, their files, and what writes, flushes, checks and cuts them."""
