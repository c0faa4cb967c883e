"""Spark on stores and topics, beside loops and clients without it."""
