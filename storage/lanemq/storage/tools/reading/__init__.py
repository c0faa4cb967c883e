"""Reading a store directory that is at rest, without leaving a trace."""
