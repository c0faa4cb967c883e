"""Fakes and simulations for the tests of this repository; not part of the installed package."""
