"""Logical queues at a name server: reports of brokers, and routes for each kind of client."""
