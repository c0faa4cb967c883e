"""Messages that wait in the log until they are due, and their delivery."""
