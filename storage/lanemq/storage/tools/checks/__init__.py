"""Checks of a store: the log against itself, every index against the log."""
