"""Where a connection may go: near addresses, and HTTP that is held to what was checked."""
