"""Clients at one Apache broker: the SDK, the Java client, other Python ones."""
