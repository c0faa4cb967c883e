"""The status of a broker: a typed snapshot, and its presenters."""
