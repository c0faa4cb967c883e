"""Logical queues at a broker: mapping, sealing, migration, sends and pulls."""
