"""The carriers of bytes below a connection: listening sockets, plain streams, TLS."""
