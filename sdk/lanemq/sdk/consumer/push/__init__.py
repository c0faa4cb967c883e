"""The push consumer put together: its group, its queues and its pool of workers."""
