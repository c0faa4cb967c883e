"""Queue files, made of rows or of the log, and put in place of those that are there."""
