"""Whether a call may run: rules, parked calls, and the people who decide on them."""
