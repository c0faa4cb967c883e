"""Offsets of logical queues and the progress of groups: reads, commits, resets, statistics."""
