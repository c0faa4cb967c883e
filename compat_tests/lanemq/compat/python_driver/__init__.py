"""The driver of lanemq's own SDK: a process like the other drivers, with the same protocol."""
