"""Ordered consumption: listeners, queue locks, stages and their progress."""
