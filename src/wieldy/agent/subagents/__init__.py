"""Agents as tools of other agents: each works in a run of its own, inside the outer call."""
