"""Pulls of one message queue, and what was pulled of it."""
