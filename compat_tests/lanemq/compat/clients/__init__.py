"""The clients under test, each a driver process."""
