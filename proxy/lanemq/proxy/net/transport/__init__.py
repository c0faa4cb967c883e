"""The ways of bytes to a connection: listening sockets, plain streams, and TLS over them."""
