"""A broker's state in memory: topics, groups, clients, parked pulls and counters."""
