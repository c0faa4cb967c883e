"""Consumers: membership of a group, progress, push and lite pull."""
