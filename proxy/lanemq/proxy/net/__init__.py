"""The server: ports, connections, sessions, dispatch of requests, and their limits."""
