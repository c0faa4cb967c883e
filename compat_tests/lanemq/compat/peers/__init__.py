"""Real software: fetched, built once, and run as small programs."""
