"""lanemq.storage"""
