"""Logical queues as a client uses them: segment by segment."""
