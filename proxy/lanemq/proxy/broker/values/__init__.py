"""Typed values of requests and their answers, which handlers take and return."""
