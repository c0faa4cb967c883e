"""Connections, routes and identity of a client."""
