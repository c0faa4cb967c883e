"""The bounds of a server: memory, descriptors, requests, and turns of the event loop."""
