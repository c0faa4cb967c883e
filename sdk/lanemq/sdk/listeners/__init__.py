"""Listeners that applications write, and what they are called with."""
