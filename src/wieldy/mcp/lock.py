"""The lock under the name by which programs know it."""

from wieldy.lock.lockfile import LOCK_FILE, Lock

__all__ = ["LOCK_FILE", "Lock"]
