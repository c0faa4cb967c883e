"""Requests of operators to a broker."""
