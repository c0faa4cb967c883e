"""Logical queues under real clients: brokers, an administrator, load."""
