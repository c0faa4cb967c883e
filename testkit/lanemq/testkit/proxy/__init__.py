"""Helpers of the tests of proxy/: peers that speak frames, and a broker without sockets."""
