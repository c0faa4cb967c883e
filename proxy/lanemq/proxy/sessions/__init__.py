"""Requests, answers, and the state of clients and groups: the parts of brokers and listeners."""
