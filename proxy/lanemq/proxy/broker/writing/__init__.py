"""The way into the log: the one gate to it, and the waits for the disk."""
