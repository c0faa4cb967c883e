"""The checkpoint and the watermarks of a store: how far log, queues and index are durable."""
