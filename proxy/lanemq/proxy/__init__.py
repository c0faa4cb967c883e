"""Servers: ``lanemq.proxy.nameserver``, ``lanemq.proxy.broker``, and the commands that run them.

Nothing is imported here: the command line starts as fast as the one command it needs.
"""
