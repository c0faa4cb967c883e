"""Sends, pulls, locks and stages in a broker's logical queues."""
