"""Measure wieldy beside a reference that runs in the same process or the same run."""
