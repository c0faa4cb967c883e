"""Logical queues on the side of the servers."""
