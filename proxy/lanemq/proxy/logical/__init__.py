"""Logical queues at the servers: the rules, a broker's part, and a listener for old clients."""
