"""Requests of producers and consumers to a broker."""
