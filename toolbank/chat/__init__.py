"""What is asked of a model, and what it answers."""
