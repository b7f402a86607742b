"""What a definition hides, under the name by which programs know it."""

from wieldy.lock.suspicion import Finding, examine, suspicions

__all__ = ["Finding", "examine", "suspicions"]
