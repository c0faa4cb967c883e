"""Producers: queue choice, retries, batches, transactions, request-reply."""
