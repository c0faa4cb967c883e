"""The logical queues that a broker has, and its view of what others have."""
