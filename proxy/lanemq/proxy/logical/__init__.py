"""Logical queues at the servers: the rules, and a listener for old clients."""
