"""The public import path of `wieldy.lock.lockfile`."""

from wieldy.lock.lockfile import LOCK_FILE, Lock

__all__ = ["LOCK_FILE", "Lock"]
