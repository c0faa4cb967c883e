"""The values that handlers take and return, and the encoders of results."""
