"""The public import path of `wieldy.lock.suspicion`."""

from wieldy.lock.suspicion import Finding, examine, suspicions

__all__ = ["Finding", "examine", "suspicions"]
