"""The settings of a broker: its file, the environment, and Apache's keys."""
