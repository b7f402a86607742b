"""Measure other libraries, each in an environment of its own, with the same yardstick."""
