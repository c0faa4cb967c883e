"""Observation of a client: log fields, hooks, traces, statistics, telemetry."""
