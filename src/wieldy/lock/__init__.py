"""Lock the definitions of tools, and find suspicious text in them."""
