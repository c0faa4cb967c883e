"""Requests that bring messages: sends, send-backs and replies."""
