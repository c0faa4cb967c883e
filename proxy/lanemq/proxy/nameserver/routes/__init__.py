"""The brokers that are registered, and the routes of their topics."""
