"""Where a connection may go: which addresses are near, and HTTP that uses only checked ones."""
