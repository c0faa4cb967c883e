"""Transactions: messages that are delivered once their producers say so."""
