"""Take arguments in: read, convert, repair, and say what is wrong with them."""
