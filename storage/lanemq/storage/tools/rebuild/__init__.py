"""Indexes made again from the log."""
