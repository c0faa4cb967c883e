"""A consumer group: its requests, each to the right broker, and its offsets."""
