"""lanemq.bench"""
