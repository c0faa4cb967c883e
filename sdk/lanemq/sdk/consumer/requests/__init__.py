"""A consumer group's requests of one queue: what each broker is asked, and its answers."""
