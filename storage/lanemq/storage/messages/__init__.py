"""Messages on their way into the log and to its indexes, and out of both."""
