"""lanemq.wire"""
