"""A consumer group's requests about one physical queue."""
