"""Timers of 5.x: messages that are delivered at a time, to the second or better."""
