"""How often, how long and how many at once a tool may run, and how large its result may be."""
