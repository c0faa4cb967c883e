"""Ordered consumption: queue locks, stages and their progress."""
