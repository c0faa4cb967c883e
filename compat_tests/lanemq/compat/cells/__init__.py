"""A cell of the matrix, and the scenarios' way to its client and cluster."""
