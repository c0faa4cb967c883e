"""Store directories that brokers of both makers use in turn, and views of what is in them."""
