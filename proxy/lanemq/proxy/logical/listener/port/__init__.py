"""A port as its clients see it: its queues, its records, the context of its handlers."""
