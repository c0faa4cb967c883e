"""The rules of logical queues, as servers apply them.

Pure: mappings, what an operation makes of them, and what may be read and written where. Nothing
here knows a socket, a disk or a clock.
"""
