"""How tools are found: an index of their words, and what each session has been shown."""
