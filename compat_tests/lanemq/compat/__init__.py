"""lanemq.compat"""
