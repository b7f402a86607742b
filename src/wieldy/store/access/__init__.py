"""How people come in by a browser."""
