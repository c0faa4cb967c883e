"""Sends, pulls, locks and progress in a broker's logical queues."""
