"""Ways of messages out of the log: pulls, single messages, offsets."""
