"""The parts of ``lanemq compat demo``."""
