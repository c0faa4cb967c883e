"""What clients see at one port: its queues, its records, the context of its handlers."""
