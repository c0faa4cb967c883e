"""Clusters to test against, of either maker, in processes of their own."""
