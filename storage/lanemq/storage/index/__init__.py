"""The message index: which messages have a key."""
