"""The bounds of a server on its peers: memory, descriptors, requests."""
