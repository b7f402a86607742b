"""What makes a run of an agent outlive its process: its steps written down, and read again."""
