"""Requests for keys as every server answers them, wherever the states of its partitions are."""
