"""What was looked at is what runs: the lock file, and what a definition hides."""
