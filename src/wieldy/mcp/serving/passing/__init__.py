"""What the servers behind a box offer besides tools, passed on to its clients."""
