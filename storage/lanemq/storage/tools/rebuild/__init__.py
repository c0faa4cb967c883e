"""Indexes made anew from the log."""
