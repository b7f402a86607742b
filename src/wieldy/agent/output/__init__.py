"""What an answer should be: told to the model as text, and read from it as data."""
