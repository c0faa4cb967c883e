"""The tables under config: topics, groups and offsets."""
