"""Ways of a message into the log: sends, send-backs, replies, and what is due."""
