"""Runs of scenarios over clients and servers, and their reports."""
