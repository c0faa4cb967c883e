"""Helpers of the tests of storage/: a disk in memory, and stores in processes that are killed."""
