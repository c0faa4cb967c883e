"""The HTTP port for operators' tools: health, readiness, metrics."""
