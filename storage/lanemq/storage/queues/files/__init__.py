"""Consume queues in files."""
