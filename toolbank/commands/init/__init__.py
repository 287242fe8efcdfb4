"""Writing a first recipe."""
