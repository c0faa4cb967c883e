"""Whole clusters in one trio run: name servers, brokers, clients, and what goes wrong with them.

The code is the real one, from the SDK's calls to the commit log; only the network, the disk and
the clock are simulated. ``python -m lanemq.testkit.simulation`` runs it.
"""
