"""Common parts of the commands: their options, servers and output."""
