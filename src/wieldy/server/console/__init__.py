"""The console: pages for people who decide and look in a browser."""
