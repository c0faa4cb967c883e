"""lanemq.sdk"""
