"""Stores at rest and at their start: conversions, a million queues."""
