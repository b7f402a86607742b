"""Store the steps of an agent's run, so that another process can resume it."""
