"""Requests for keys and values: where they go, how they are tried again, and split by partition."""
