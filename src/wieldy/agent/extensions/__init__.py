"""Abilities of an agent besides asking, each a class to mix in over `BaseAgent`."""
