"""Clusters in memory with logical queues, as tests open and ask them."""
