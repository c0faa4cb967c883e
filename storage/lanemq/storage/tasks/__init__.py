"""The background tasks of an open store."""
