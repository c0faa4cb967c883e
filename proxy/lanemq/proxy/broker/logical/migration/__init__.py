"""Requests that map, seal and move logical queues, and the tasks that complete them."""
