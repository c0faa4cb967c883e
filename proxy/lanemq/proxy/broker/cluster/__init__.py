"""A broker among others: calls to them, and its registration at name servers."""
