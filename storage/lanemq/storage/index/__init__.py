"""The message index, which finds messages by key."""
