"""Helpers of the tests of sdk/: a cluster in memory, and the scenarios of each face."""
