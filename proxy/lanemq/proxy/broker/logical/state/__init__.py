"""A broker's logical queues, groups' progress in them, and its view of what others have."""
