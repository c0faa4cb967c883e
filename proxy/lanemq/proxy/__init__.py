"""lanemq.proxy"""
