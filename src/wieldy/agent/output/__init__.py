"""The form of an answer: described to the model as text, and read from its answer as data."""
