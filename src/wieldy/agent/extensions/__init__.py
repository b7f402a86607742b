"""What an agent can do beyond asking: each a class to mix in over `BaseAgent`."""
