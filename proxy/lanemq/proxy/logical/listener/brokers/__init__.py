"""The brokers that hold segments: the routes to them, and calls to them."""
