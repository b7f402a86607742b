"""REST and server-sent events for programs, one module for each kind of thing."""
