"""Logical queues: the cost of translation, several listeners, pauses of migrations."""
