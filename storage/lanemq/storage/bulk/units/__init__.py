"""Units and rows made many at a time, of queue files and of the log."""
