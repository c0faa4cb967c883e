"""The worker pool that runs a listener: schedulers before it, completion behind it."""
