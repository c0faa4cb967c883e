"""The start of a store: its plan, recovery of the log, and redo of the indexes."""
